"""Text tokens as rows of the talker's input (`Qwen3TTSTalkerResizeMLP` of the official package)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..nn.linear import Linear


class TextProjection:
    """row(token) = fc2(silu(fc1(embedding[token]))), text width to talker width.

    The embedding table is the largest tensor of the file and a prompt needs a few dozen of its rows, so the rows
    are read from the mapped file and the table never occupies the device.
    """

    def __init__(self, weights: Weights, engine: Engine) -> None:
        self._scope = weights.scope("talker.")
        self._engine = engine
        self._first = Linear(self._scope, "text_proj.fc1")
        self._second = Linear(self._scope, "text_proj.fc2")

    def __call__(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the rows [n, width] of tokens [n]; each distinct token is computed once."""
        distinct, where = np.unique(tokens, return_inverse=True)
        embedded = self._scope.rows("text_embd.weight", distinct)
        graph = self._engine.graph()
        x = graph.input("embedded", embedded.shape[::-1])
        program = graph.program({"rows": self._second(self._first(x).silu())})
        rows: NDArray[np.float32] = program(embedded=embedded)["rows"].reshape(len(distinct), -1)
        return rows[where]
