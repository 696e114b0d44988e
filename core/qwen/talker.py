"""The talker: a Qwen3 decoder that hears text and past frames and names the first code of the next frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Graph, Program, Tensor, Weights
from ..formats.qwen import TalkerFile
from ..nn.buckets import prompt_bucket
from ..nn.config import USUAL, Arithmetic, TransformerConfig
from ..nn.kv_cache import CacheView, KVCache
from ..nn.linear import Linear
from ..nn.norms import load_norm
from ..nn.prompt_slots import PromptSlotsView
from ..nn.slot_cache import OneSlotView, SlotsView
from ..nn.transformer import Transformer
from .kernel_talker import KernelTalker
from .program_shelf import ProgramShelf

FloatArray = NDArray[np.float32]

MakeView = Callable[[Graph], CacheView | OneSlotView | SlotsView | PromptSlotsView]
"""Returns keys and values as a graph sees them."""

FRAMES_AT_FIRST = 250
"""The cache is made for 20 seconds of speech at first, and grows when more is said."""

SESSION_PROGRAMS = 16
"""How many programs a session keeps: for prompts of different lengths, and steps that see more positions."""


@dataclass(frozen=True)
class TalkerStep:
    """What the talker says after one more position.

    Attributes:
        logits: [vocabulary], for the first code of the next frame.
        hidden: [width], the normed last position, which the code predictor starts from.
        taps: residual streams [tokens, width] by layer, and "final" after the last norm, where asked for.
    """

    logits: FloatArray
    hidden: FloatArray
    taps: dict[int | str, FloatArray] = field(default_factory=dict)


class Talker:
    """Weights and maths; every utterance has a `TalkerSession` of its own, or a place in a `TalkerBatch`."""

    def __init__(
        self, weights: Weights, file: TalkerFile, engine: Engine, arithmetic: Arithmetic = USUAL
    ) -> None:
        self.engine = engine
        self._weights, self._file = weights, file
        self._opening = threading.Lock()
        self.context_length = file.context_length
        self.config = TransformerConfig(**asdict(file.talker), arithmetic=arithmetic)
        scope = weights.scope("talker.")
        self.transformer = Transformer(scope, self.config)
        self.output_norm = load_norm(scope, "output_norm", self.config.norm_eps)
        self.codec_head = Linear(scope, "codec_head")

    @property
    def keeps_programs(self) -> bool:
        """Whether programs are dear here, and prompts are padded so that few serve all: everywhere but on the CPU."""
        return not self.engine.is_cpu

    @property
    def kernel(self) -> KernelTalker | None:
        """What computes single positions on this device; None where it has no kernel for these weights."""
        with self._opening:
            return self._kernel

    @cached_property
    def _kernel(self) -> KernelTalker | None:
        if self.engine.exact:
            return None  # a position is then computed alike alone and among others
        return KernelTalker.open(self._weights, self._file, self.config)

    def session(self, kv_type: str = "f16") -> TalkerSession:
        """Return a session whose cache has that type, "f16" or "f32".

        Raises:
            EngineError: the device has not enough memory.
        """
        return TalkerSession(self, kv_type)

    def bucket(self, tokens: int, taps: Sequence[int | str] = ()) -> int | None:
        """Return the length that a prompt is padded to; None where it is computed as it is."""
        return prompt_bucket(tokens) if self.keeps_programs and not taps else None

    def program(
        self,
        tokens: int,
        make_view: MakeView,
        *,
        answered: int = 1,
        named: bool = False,
        taps: Sequence[int | str] = (),
    ) -> Program:
        """Build the run of x [width, tokens] at the positions of a view.

        Outputs are "hidden" and "logits" of the last `answered` tokens, and "tap_{tap}" of all. With `named`, they are
        of those tokens instead that the input "answered" names, i32 [answered].
        """
        graph = self.engine.graph()
        x = graph.input("x", (self.config.width, tokens))
        view = make_view(graph)
        streams = list(self.transformer.residuals(x, view.positions, view))
        outputs = {f"tap_{tap}": streams[tap] for tap in taps if isinstance(tap, int)}
        if "final" in taps:
            outputs["tap_final"] = self.output_norm(streams[-1])
        if named:
            heard = streams[-1].get_rows(graph.input("answered", (answered,), "i32"))
        else:
            heard = _last(streams[-1], answered)
        hidden = self.output_norm(heard)
        return graph.program({**outputs, "hidden": hidden, "logits": self.codec_head(hidden)})

    def steps(self, result: dict[str, FloatArray], taps: Sequence[int | str] = ()) -> list[TalkerStep]:
        """Return what a run of such a program says, one step for each token that is answered."""
        width = self.config.width
        found = {tap: result[f"tap_{tap}"].reshape(-1, width) for tap in taps}
        hidden = result["hidden"].reshape(-1, width)
        logits = result["logits"].reshape(len(hidden), -1)
        return [TalkerStep(*answer, found) for answer in zip(logits, hidden, strict=True)]

    def positions_at_first(self, tokens: int, frames: int) -> int:
        """Return how many positions to set aside for a prompt and that many frames at most."""
        wanted = tokens + min(frames, FRAMES_AT_FIRST)
        return max(tokens, min(wanted, self.context_length)) if self.context_length else wanted


class TalkerSession:
    """One sequence: a prompt, then one position per frame. Programs and memory serve the next sequence too."""

    def __init__(self, talker: Talker, kv_type: str) -> None:
        self._talker = talker
        limit = talker.context_length or None
        self._cache = KVCache(talker.engine, talker.config, positions=1, dtype=kv_type, limit=limit)
        self._programs = ProgramShelf(SESSION_PROGRAMS)

    @property
    def length(self) -> int:
        """Positions so far."""
        return self._cache.length

    @property
    def layers(self) -> int:
        """How many layers the talker has."""
        return self._talker.config.layers

    @property
    def limit(self) -> int | None:
        """Positions that the context of the model has, None where the file states none."""
        return self._cache.limit

    @property
    def full(self) -> bool:
        """True when the context of the model has no room for another position."""
        return self._cache.room == 0

    def prefill(self, prompt: FloatArray, *, frames: int = 0, taps: Sequence[int | str] = ()) -> TalkerStep:
        """Begin a sequence with the rows of a prompt [tokens, width].

        Args:
            prompt: input rows.
            frames: how many more positions are expected, at most; memory for the first of them is set aside.
            taps: layers whose output is wanted, and "final" for all rows after the last norm.

        Raises:
            ValueError: the prompt is longer than the context of the model.
            EngineError: the device has not enough memory.
        """
        tokens = len(prompt)
        self._cache.reset()
        self._cache.reserve(self._talker.positions_at_first(tokens, frames))
        bucket = self._talker.bucket(tokens, taps)
        if bucket is None:
            # A prompt's length is its own, so its program is run once and dropped: where programs are cheap, padding it
            # to a length that could be met again would cost more than the millisecond it takes to build.
            result = self._build(tokens, taps)(x=prompt, **self._cache.feed(tokens))
        else:
            last = np.array([tokens - 1], np.int32)
            rows = self._cache.prompt_rows(bucket)
            result = self._prompt_program(bucket)(x=padded(prompt, bucket), answered=last, **rows)
        self._cache.advance(tokens)
        return self._talker.steps(result, taps)[0]

    def decode(self, row: FloatArray) -> TalkerStep:
        """Add one position with input [width].

        Raises:
            ValueError: the context is full.
            EngineError: the device has not enough memory.
        """
        self._cache.reserve(1)
        length, kernel = self._cache.length, self._talker.kernel
        if kernel is not None and kernel.takes(length):
            hidden, logits = kernel.step(self._cache.state, 0, length, row)
            step = TalkerStep(logits, hidden)
        else:
            step = self._talker.steps(self._step_program()(x=row[None], **self._cache.feed(1)))[0]
        self._cache.advance(1)
        return step

    def _step_program(self) -> Program:
        revision, visible = self._cache.signature(1)
        return self._programs.get(revision, ("step", visible), lambda: self._build(1))

    def _prompt_program(self, bucket: int) -> Program:
        """Return the run of a prompt that is padded to `bucket`: what stands behind it is never seen, and written
        over by the positions that follow."""

        def build() -> Program:
            return self._talker.program(
                bucket, lambda graph: self._cache.prompt_view(graph, bucket), named=True
            )

        return self._programs.get(self._cache.revision, ("prompt", bucket), build)

    def _build(self, tokens: int, taps: Sequence[int | str] = ()) -> Program:
        return self._talker.program(tokens, lambda graph: self._cache.view(graph, tokens), taps=taps)


def _last(x: Tensor, count: int) -> Tensor:
    """x [width, tokens] -> its last columns [width, count]."""
    return x if count == x.shape[1] else x.slice(1, x.shape[1] - count, count)


def padded(prompt: FloatArray, positions: int) -> FloatArray:
    """Repeat the last row of a prompt [tokens, width] until there are so many: rows like any other, so that what
    comes of them is as tame."""
    return np.concatenate([prompt, np.repeat(prompt[-1:], positions - len(prompt), axis=0)])
