"""The code predictor: from the talker's hidden state and first code to the other codes of the frame, one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Graph, Program, Tensor, Weights, WeightScope
from ..formats.qwen import TalkerFile
from ..nn.config import USUAL, Arithmetic, TransformerConfig
from ..nn.kv_cache import CacheView, KVCache
from ..nn.linear import Linear
from ..nn.norms import load_norm
from ..nn.slot_cache import SlotsView
from ..nn.transformer import Transformer
from .choices import Choose
from .code_embeddings import CodeEmbeddings
from .expanded_frame import ExpandedFrame
from .kernel_predictor import SCOPE, FrameSession, KernelPredictor, KernelSession

FloatArray = NDArray[np.float32]

MakeView = Callable[[Graph], CacheView | SlotsView]
"""Returns keys and values as a graph sees them."""


class PredictorNetwork:
    """The weights of the code predictor as layers."""

    def __init__(self, scope: WeightScope, config: TransformerConfig, codebooks: int) -> None:
        # Absent where talker and predictor are equally wide.
        self.input_projection = Linear(scope, "mtp_proj") if "mtp_proj.weight" in scope else None
        self.transformer = Transformer(scope, config)
        self.output_norm = load_norm(scope, "output_norm", config.norm_eps)
        self.heads = [Linear(scope, f"lm_head.{index}") for index in range(codebooks - 1)]


class CodePredictor:
    """Weights and maths; a `CodePredictorSession` runs them, or a `CodePredictorBatch` for several frames at once."""

    def __init__(
        self,
        weights: Weights,
        file: TalkerFile,
        embeddings: CodeEmbeddings,
        engine: Engine,
        arithmetic: Arithmetic = USUAL,
    ) -> None:
        self.engine = engine
        self.embeddings = embeddings
        self._weights, self._file = weights, file
        self._opening = threading.Lock()
        self.codebooks = file.codebooks
        self.talker_width = file.talker.width
        self.config = TransformerConfig(**asdict(file.code_predictor), arithmetic=arithmetic)

    @property
    def network(self) -> PredictorNetwork:
        """What programs are made of. Weights that only the kernel reads are never brought to the device for it."""
        with self._opening:
            return self._network

    @cached_property
    def _network(self) -> PredictorNetwork:
        return PredictorNetwork(self._weights.scope(SCOPE), self.config, self.codebooks)

    @property
    def kernel(self) -> KernelPredictor | None:
        """What computes whole frames on this device; None where it has no kernel for these weights."""
        with self._opening:
            return self._kernel

    @cached_property
    def _kernel(self) -> KernelPredictor | None:
        if self.config.arithmetic != USUAL:
            return None  # it computes in its own way only
        return KernelPredictor.open(self.engine, self._weights, self._file, self.embeddings)

    def session(self, kv_type: str = "f16") -> FrameSession:
        """Return a session: the kernel of this device, or programs for every position of a frame.

        Raises:
            EngineError: the device has not enough memory.
        """
        kernel = self.kernel
        if kernel is None:
            return CodePredictorSession(self, kv_type)
        return KernelSession(kernel, lambda: CodePredictorSession(self, kv_type))

    def program(
        self, start: int, tokens: int, make_view: MakeView, *, frames: int = 1, traced: bool = False
    ) -> Program:
        """Build the run of positions start .. start + tokens of some frames, which ends in their next codes.

        x [talker width, frames * tokens], frame by frame, to "logits" [entries, frames] of code start + tokens - 1; and
        of one frame the stages that `CodePredictorSession.trace` returns, where it is traced.
        """
        network, graph = self.network, self.engine.graph()
        x = graph.input("x", (self.talker_width, frames * tokens))
        projected = x if network.input_projection is None else network.input_projection(x)
        view = make_view(graph)
        streams = list(network.transformer.residuals(projected, view.positions, view))
        final = network.output_norm(streams[-1])
        outputs = {"logits": network.heads[start + tokens - 2](_last_of_each(final, frames))}
        if traced:
            outputs |= {"projected": projected, "final": final}
            outputs |= {f"layer{index}": stream for index, stream in enumerate(streams)}
        return graph.program(outputs)


class CodePredictorSession:
    """Expands frames. A frame is a short sequence of its own: the hidden state, then codes 0, 1, ... without the last.

    Every frame has the same positions, so each has a program in which they are constants.
    """

    def __init__(self, predictor: CodePredictor, kv_type: str) -> None:
        self._predictor = predictor
        self._cache = KVCache(predictor.engine, predictor.config, predictor.codebooks, kv_type)
        self._begin = self._build(start=0, tokens=2)
        self._next = [self._build(start, 1) for start in range(2, predictor.codebooks)]

    def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """Return the frame that begins with code `first`.

        Args:
            hidden: [talker width], the talker's normed state.
            first: code 0.
            choose: picks code 1, 2, ... from its logits.
        """
        embeddings, codebooks = self._predictor.embeddings, self._predictor.codebooks
        codes = np.empty(codebooks, np.int32)
        codes[0] = first
        row = embeddings.rows(codes[:1])
        total = row[0].copy()
        logits = self._begin(x=np.concatenate([hidden[None], row]))["logits"]
        for codebook in range(1, codebooks):
            codes[codebook] = choose(logits.reshape(-1), codebook)
            row = embeddings.rows(codes[codebook : codebook + 1], codebook)
            total += row[0]
            if codebook < codebooks - 1:
                logits = self._next[codebook - 1](x=row)["logits"]
        return ExpandedFrame(codes, total)

    def trace(self, hidden: FloatArray, codes: NDArray[np.int32]) -> dict[str, FloatArray]:
        """Return the stages of one frame whose codes [codebooks] are known, for dumps and comparisons.

        "projected" [2, width] and "layer{i}" [2, width] of the first run, "final" [codebooks, width], "logits"
        [codebooks - 1, entries].
        """
        embeddings = self._predictor.embeddings
        rows = [embeddings.rows(codes[index : index + 1], index) for index in range(len(codes) - 1)]
        stages = self._build(start=0, tokens=2, traced=True)(x=np.concatenate([hidden[None], rows[0]]))
        finals, logits = [stages["final"]], [stages["logits"].reshape(-1)]
        for start, row in enumerate(rows[1:], start=2):
            step = self._build(start, 1, traced=True)(x=row)
            finals.append(step["final"].reshape(1, -1))
            logits.append(step["logits"].reshape(-1))
        return {**stages, "final": np.concatenate(finals), "logits": np.stack(logits)}

    def _build(self, start: int, tokens: int, traced: bool = False) -> Program:
        """Build the run of positions start .. start + tokens, which ends in the logits of code start + tokens - 1."""
        return self._predictor.program(
            start, tokens, lambda graph: self._cache.fixed_view(graph, tokens, start), traced=traced
        )


def _last_of_each(x: Tensor, frames: int) -> Tensor:
    """x [width, frames * tokens] -> the last column of each frame, [width, frames]."""
    width, columns, *_ = x.shape
    if frames == 1:
        return x.slice(1, columns - 1, 1)
    if frames == columns:
        return x
    tokens = columns // frames
    return x.reshape(width, tokens, frames).slice(1, tokens - 1, 1).contiguous().reshape(width, frames)
