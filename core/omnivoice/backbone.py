"""OmniVoice's backbone: a Qwen3 transformer that sees in both directions, between embeddings and heads for audio codes.

A position is a text token or a frame of audio. A frame's embedding is the sum of those of its codes, one table per
codebook; a head per codebook gives its logits. The transformer is the talker's, but no position is hidden from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Graph, Tensor, Weights
from ..errors import UsageError
from ..formats.layout import require_layout
from ..formats.omnivoice import OmniVoiceFile
from ..formats.omnivoice_layout import base_layout
from ..nn.attention import flash_attends_to_all
from ..nn.config import USUAL, Arithmetic, TransformerConfig
from ..nn.feed_forward import SwiGLU
from ..nn.joined import AttentionKind, JoinedSequences, Part, side_by_side
from ..nn.linear import Linear
from ..nn.many_positions import many_positions_type
from ..nn.names import QWEN3_NAMES, RenamedScope
from ..nn.norms import load_norm
from ..nn.transformer import Transformer
from .prompt import IntArray, OmniPrompt

FloatArray = NDArray[np.float32]

TOGETHER = 1024
"""Positions up to which a GPU attends to all sequences in one operation, with a mask between them: fewer operations are
then worth more than the scores that nobody looks at."""


@dataclass(frozen=True)
class Pass:
    """The nodes of one pass over sequences that lie side by side, [channels, positions of all of them].

    Attributes:
        layers: residual stream after each layer.
        final: the last one after the norm, of the wanted positions.
        logits: [codebooks * vocabulary, wanted positions], codebook by codebook.
    """

    layers: Sequence[Tensor]
    final: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Sequences:
    """The lengths of sequences that lie side by side, and what the device has to know of them.

    `biases` holds what is added to the attention scores within a sequence ([length, length] each), None for nothing.
    """

    lengths: tuple[int, ...]
    biases: tuple[FloatArray | None, ...] = ()

    @property
    def total(self) -> int:
        """Positions of all sequences."""
        return sum(self.lengths)

    def memory(self, graph: Graph, kind: AttentionKind) -> JoinedSequences:
        """Add the inputs of these sequences to a graph; the fused attention is told their lengths."""
        if kind is AttentionKind.FLASH:
            return JoinedSequences(self._flash_parts(graph))
        parts = []
        for index, length in enumerate(self.lengths):
            count = graph.input(f"count{index}", (1,), "i32") if self._counted(index, kind) else None
            bias = None if self._bias(index) is None else graph.input(f"bias{index}", (length, length))
            parts.append(Part(length, count, bias))
        return JoinedSequences(parts)

    def feed(self, kind: AttentionKind) -> dict[str, NDArray[np.generic]]:
        """Return the values of these inputs, the positions included."""
        values: dict[str, NDArray[np.generic]] = {}
        for index, length in enumerate(self.lengths):
            bias = self._bias(index)
            if bias is not None and kind is not AttentionKind.FLASH:
                values[f"bias{index}"] = bias
            if self._counted(index, kind):
                values[f"count{index}"] = np.array([length], np.int32)
        positions = [np.arange(length, dtype=np.int32) for length in self.lengths]
        return values | {"positions": np.concatenate(positions)}

    def _flash_parts(self, graph: Graph) -> list[Part]:
        """Biases stay on the device: they are the same in every run, and large."""
        biases = [self._bias(index) for index in range(len(self.lengths))]
        if len(self.lengths) > 1 and self.total <= TOGETHER:
            bias = graph.kept_mask(side_by_side(self.lengths, biases).astype(np.float16))
            return [Part(self.total, bias=bias, flash=True)]
        return [
            Part(
                length,
                bias=None if bias is None else graph.kept_mask(bias.astype(np.float16)),
                flash=True,
            )
            for length, bias in zip(self.lengths, biases, strict=True)
        ]

    def _bias(self, index: int) -> FloatArray | None:
        return self.biases[index] if self.biases else None

    def _counted(self, index: int, kind: AttentionKind) -> bool:
        return kind is AttentionKind.FUSED and self._bias(index) is None


class Backbone:
    """Weights and maths of the language model."""

    def __init__(
        self, weights: Weights, file: OmniVoiceFile, engine: Engine, arithmetic: Arithmetic = USUAL
    ) -> None:
        """Take the weights of a file. Raises ModelFileError when tensors are missing or of other shapes.

        `clamp_float16` of the arithmetic keeps values within the range of float16, `plain_attention` avoids the fused
        attention.
        """
        require_layout(weights, base_layout(file), weights.path, "an OmniVoice language model")
        self.engine = engine
        self.file = file
        self.weights = weights
        self.config = TransformerConfig(**asdict(file.backbone), arithmetic=arithmetic, many_positions=True)
        matrices = [name for name in weights.names() if name.startswith(("llm.layers.", "audio_heads."))]
        self.matrix_type = many_positions_type(engine, weights, matrices)
        """The type that matrices are held in; None for that of the file."""
        scope = RenamedScope(weights, "llm.", QWEN3_NAMES, self.matrix_type)
        self._transformer = Transformer(scope, self.config, partial(SwiGLU, many_positions=True))
        self._norm = load_norm(scope, "output_norm", self.config.norm_eps)
        self._table = weights.tensor("audio_embeddings.weight")
        self._heads = Linear(weights.scope("", self.matrix_type), "audio_heads")
        refused = np.zeros(file.audio_vocabulary, np.float32)
        refused[file.mask_code] = -np.inf
        self.forbidden = weights.constant("maskgit.forbidden", refused)
        """[vocabulary], added to logits whose best code is wanted: the mask is none."""
        self._first_row = np.arange(file.codebooks, dtype=np.int32) * file.audio_vocabulary

    @property
    def attention(self) -> AttentionKind:
        """How positions are attended to here."""
        if flash_attends_to_all(self.engine, self.config):
            return AttentionKind.FLASH
        fused = self.engine.is_cpu and not self.config.arithmetic.plain_attention
        return AttentionKind.FUSED if fused else AttentionKind.PLAIN

    def text_rows(self, tokens: IntArray) -> FloatArray:
        """Return the embeddings [n, width] of text tokens [n]; they are read from the file, so the table is never
        loaded."""
        return self.weights.rows("llm.embed_tokens.weight", tokens)

    def audio_rows(self, codes: IntArray) -> FloatArray:
        """Return the embeddings [frames, width] of codes [frames, codebooks]."""
        rows = self.weights.rows("audio_embeddings.weight", self.table_rows(codes).reshape(-1))
        rows = rows.reshape(len(codes), self.file.codebooks, -1)
        total: FloatArray = rows[:, 0].copy()
        for codebook in range(1, self.file.codebooks):
            total += rows[:, codebook]
        return total

    def prompt_rows(self, prompt: OmniPrompt) -> FloatArray:
        """Return the embeddings [positions, width] of a prompt.

        Raises:
            UsageError: the reference has codes that this model does not have.
        """
        if prompt.reference is None:
            return self.text_rows(prompt.tokens)
        codes, file = prompt.reference, self.file
        if codes.shape[1] != file.codebooks or codes.min() < 0 or codes.max() >= file.mask_code:
            raise UsageError(
                f"the reference has {codes.shape[1]} codebooks with codes from {codes.min()} to {codes.max()}, "
                f"but this model has {file.codebooks} with codes below {file.mask_code}"
            )
        return np.concatenate([self.text_rows(prompt.tokens), self.audio_rows(codes)])

    def mixed_rows(self, ids: IntArray, audio: NDArray[np.bool_]) -> FloatArray:
        """Return the embeddings [positions, width] of ids [codebooks, positions].

        They are codes where `audio` [positions] says so, elsewhere text tokens, which are read from the first row.
        """
        return np.where(
            audio[:, None],
            self.audio_rows(np.where(audio, ids, 0).T),
            self.text_rows(np.where(audio, 0, ids[0]).astype(np.int32)),
        )

    def table_rows(self, codes: IntArray) -> IntArray:
        """Return the rows of the audio embedding table, int32 [frames, codebooks], that codes of this shape have."""
        rows: IntArray = codes.astype(np.int32) + self._first_row
        return rows

    def embed(self, rows: Tensor) -> Tensor:
        """rows int32 [frames, codebooks] (GGML order) of the audio table -> embeddings [width, frames]."""
        frames, codebooks = rows.shape[0], self.file.codebooks
        found = self._table.get_rows(rows.reshape(frames * codebooks))
        total = found.slice(1, 0, frames)
        for codebook in range(1, codebooks):
            total = total + found.slice(1, codebook * frames, frames)
        return total

    def forward(self, x: Tensor, positions: Tensor, memory: JoinedSequences, wanted: tuple[int, int]) -> Pass:
        """x [width, positions] at places int32 [positions] -> all stages.

        `wanted` is the first position whose logits are needed, and how many there are.
        """
        layers = list(self._transformer.residuals(x, positions, memory))
        final = self._norm(layers[-1].slice(1, *wanted))
        return Pass(layers, final, self._heads(final))

    def logits(self, rows: FloatArray) -> FloatArray:
        """Run one sequence of embeddings [positions, width]; return logits [positions, codebooks, vocabulary]."""
        count = len(rows)
        sequences = Sequences((count,))
        graph = self.engine.graph()
        x = graph.input("x", (self.config.width, count))
        positions = graph.input("positions", (count,), "i32")
        nodes = self.forward(x, positions, sequences.memory(graph, self.attention), (0, count))
        program = graph.program({"logits": nodes.logits})
        result: FloatArray = program(x=rows, **sequences.feed(self.attention))["logits"]
        return result.reshape(count, self.file.codebooks, self.file.audio_vocabulary)
