"""Text tokens as rows of the talker's input (`Qwen3TTSTalkerResizeMLP` of the official package)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Program, Weights
from ..nn.linear import Linear

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

TOKENS_AT_ONCE = 64
"""Tokens of each run where programs are dear: as one program serves all texts, and what a row is does not depend on
which others are computed with it."""


class TextProjection:
    """row(token) = fc2(silu(fc1(embedding[token]))), text width to talker width.

    The embedding table is the largest tensor of the file and a prompt needs a few dozen of its rows, so the rows
    are read from the mapped file and the table never occupies the device. Usable from several threads.
    """

    def __init__(self, weights: Weights, engine: Engine) -> None:
        self._scope = weights.scope("talker.")
        self._engine = engine
        self._first = Linear(self._scope, "text_proj.fc1")
        self._second = Linear(self._scope, "text_proj.fc2")
        self._making = threading.Lock()
        self._lasting: Program | None = None

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Return the rows [n, width] of tokens [n]; each distinct token is computed once."""
        distinct, where = np.unique(tokens, return_inverse=True)
        embedded = self._scope.rows("text_embd.weight", distinct)
        rows = self._exactly(embedded) if self._engine.is_cpu else self._piece_by_piece(embedded)
        return rows[where]

    def together(self, texts: Sequence[IntArray]) -> list[FloatArray]:
        """Return the rows of several texts: those of `__call__`, in fewer runs where these are dear."""
        if self._engine.is_cpu or len(texts) == 1:
            return [self(tokens) for tokens in texts]
        ends = np.cumsum([len(tokens) for tokens in texts])
        return np.split(self(np.concatenate(texts)), ends[:-1])

    def _exactly(self, embedded: FloatArray) -> FloatArray:
        """Project rows [n, text width] by a program for so many."""
        return self._rows(self._program(len(embedded)), embedded)

    def _piece_by_piece(self, embedded: FloatArray) -> FloatArray:
        """Project rows [n, text width] by the program that is kept."""
        with self._making:
            if self._lasting is None:
                self._lasting = self._program(TOKENS_AT_ONCE)
        count = len(embedded)
        padded = np.zeros((-(-count // TOKENS_AT_ONCE) * TOKENS_AT_ONCE, embedded.shape[1]), np.float32)
        padded[:count] = embedded
        pieces = np.split(padded, range(TOKENS_AT_ONCE, len(padded), TOKENS_AT_ONCE))
        return np.concatenate([self._rows(self._lasting, piece) for piece in pieces])[:count]

    def _rows(self, program: Program, embedded: FloatArray) -> FloatArray:
        rows: FloatArray = program(embedded=embedded)["rows"].reshape(len(embedded), -1)
        return rows

    def _program(self, tokens: int) -> Program:
        graph = self._engine.graph()
        x = graph.input("embedded", (self._scope.shape("text_embd.weight")[-1], tokens))
        return graph.program({"rows": self._second(self._first(x).silu())})
