"""The frame loop: talker, sampler, code predictor, and what they hear next."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..speech.calls import alone
from ..speech.stream import StopReason
from ..speech.timings import Stopwatch
from .expanded_frame import ExpandedFrame
from .frames import Clock, FrameLine, FrameSampler
from .guard import Guard
from .kernel_predictor import FrameSession
from .prompt import Prompt
from .talker import TalkerSession, TalkerStep

FloatArray = NDArray[np.float32]


NoteStage = Callable[[str, NDArray[Any]], None]
"""Is given a stage of the model by its name in `core.speech.dump`."""


class AnySession(Protocol):
    """What one utterance at a time runs on. Its calls are awaited: others may be computed together with them."""

    @property
    def layers(self) -> int:
        """How many layers the talker has."""

    @property
    def limit(self) -> int | None:
        """Positions that the context of the talker has, None where the file states none."""

    @property
    def full(self) -> bool:
        """Whether the context has no room for another position."""

    async def prefill(self, prompt: FloatArray, *, frames: int, taps: Sequence[int | str]) -> TalkerStep:
        """`TalkerSession.prefill`."""

    async def frames(self, line: FrameLine, stopwatch: Stopwatch) -> None:
        """Make the next frames, until the line has taken enough or ended; time the models with `stopwatch`."""

    async def give_way(self) -> None:
        """Let others take a step, in the middle of long work of another kind."""


@dataclass(frozen=True)
class Session:
    """Memory and programs of both models for one utterance at a time; nothing is ever waited for."""

    talker: TalkerSession
    predictor: FrameSession

    @property
    def layers(self) -> int:
        """How many layers the talker has."""
        return self.talker.layers

    @property
    def limit(self) -> int | None:
        """Positions that the context of the talker has, None where the file states none."""
        return self.talker.limit

    @property
    def full(self) -> bool:
        """Whether the context has no room for another position."""
        return self.talker.full

    async def prefill(self, prompt: FloatArray, *, frames: int, taps: Sequence[int | str]) -> TalkerStep:
        """`TalkerSession.prefill`."""
        return self.talker.prefill(prompt, frames=frames, taps=taps)

    async def frames(self, line: FrameLine, stopwatch: Stopwatch) -> None:
        """Make the next frames, until the line has taken enough or ended."""
        sampler, enough = line.sampler, False
        while not enough:
            clock = Clock()
            step = line.heard
            if step is None:
                step = self.talker.decode(line.before + line.text)
                stopwatch.add("talker", clock.lap())
            first = sampler.first(line.frame, step.logits)
            if first == sampler.end_token:
                line.end(step.hidden)
                return
            clock.lap()
            made = self.predictor.expand(step.hidden, first, sampler.others(line.frame))
            stopwatch.add("predictor", clock.lap())
            enough = line.take(made, step.hidden)

    async def give_way(self) -> None:
        """There are no others."""


Listen = Callable[[NDArray[np.int32]], bool]
"""Is told the codes [codebooks] of each frame; returns whether something else is to be done before the next one."""


class Utterance(FrameLine):
    """The frames of one utterance, each computed when it is asked for: an async iterable, and where its session never
    waits for others a plain one too. Whoever needs no more than to hear of each frame lets it `go_on` instead.

    Attributes:
        stop: why it ended; None as long as it goes on.
        runaway: what the guard noticed, where it ended the utterance.
    """

    def __init__(
        self,
        session: AnySession,
        prompt: Prompt,
        sampler: FrameSampler,
        max_frames: int,
        stopwatch: Stopwatch,
        *,
        guard: Guard | None = None,
        note: NoteStage | None = None,
    ) -> None:
        """`guard` ends what never ends by itself; `note` is given the stages of the model."""
        self.stop: StopReason | None = None
        self.runaway: str | None = None
        self.frame = 0
        self.sampler = sampler
        self.heard: TalkerStep | None = None
        self.before = self.text = prompt.padding
        self._session = session
        self._prompt = prompt
        self._guard = guard
        self._max_frames = max_frames
        self._stopwatch = stopwatch
        self._note = note
        self._listen: Listen | None = None
        self._begun = False

    def __iter__(self) -> Generator[NDArray[np.int32], None, None]:
        """Yield what the async iteration does."""
        return alone(self.__aiter__())

    async def __aiter__(self) -> AsyncGenerator[NDArray[np.int32], None]:
        """Yield the codes of one frame after the other, int32 [codebooks]; raises as `go_on`."""
        made: list[NDArray[np.int32]] = []

        def keep(codes: NDArray[np.int32]) -> bool:
            made.append(codes)
            return True

        while self.stop is None:
            await self.go_on(keep)
            while made:
                yield made.pop()

    async def go_on(self, listen: Listen) -> None:
        """Make frames until `listen` has heard enough for now, or there are no more.

        Raises:
            UsageError: the prompt does not fit the context of the model.
            EngineError: the device failed or ran out of memory.
        """
        if not self._begun:
            self.heard, self._begun = await self._begin(), True
        self._listen = listen
        try:
            await self._session.frames(self, self._stopwatch)
        finally:
            self._listen = None  # it knows who listens, who may know this utterance

    @property
    def following_text(self) -> FloatArray | None:
        """The row of text that goes with the next frame, if another one may follow."""
        if self.frame + 1 >= self._max_frames or self._session.full:
            return None
        return self._prompt.text_row(self.frame)

    def take(self, made: ExpandedFrame, hidden: FloatArray) -> bool:
        """Take the next frame."""
        frame, codes = self.frame, made.codes
        if self._note:
            self._note_step(hidden)
        if frame == 0:
            self._stopwatch.mark("first_frame")
            if self._note:
                self._note("codes-step0", codes)
        assert self._listen is not None
        enough = self._listen(codes)
        self.stop = self._reason_to_stop(frame, codes)
        self.frame, self.heard = frame + 1, None
        self.before, self.text = made.embedding, self._prompt.text_row(frame)
        return enough or self.stop is not None

    def end(self, hidden: FloatArray) -> None:
        """Take note that speech ends."""
        if self._note:
            self._note_step(hidden)
        self.stop = "end_of_speech"

    def _note_step(self, hidden: FloatArray) -> None:
        if self._note and self.frame == 1:
            self._note("next-emb-step0", self.before + self.text)
            self._note("talker-hidden-step1", hidden)

    def _reason_to_stop(self, frame: int, codes: NDArray[np.int32]) -> StopReason | None:
        """Return why there will be no frame after this one, None if there may be."""
        if frame + 1 >= self._max_frames:
            return "max_frames"
        if self._guard is not None:
            self.runaway = self._guard.notice(codes)
            if self.runaway:
                return "runaway"
        return "context" if self._session.full else None

    async def _begin(self) -> TalkerStep:
        session, prompt = self._session, self._prompt
        if session.limit is not None and len(prompt.rows) > session.limit:
            raise UsageError(
                f"the text is too long: it needs {len(prompt.rows)} positions, and the model has {session.limit}"
            )
        frames = self._max_frames if self._guard is None else min(self._max_frames, self._guard.most_frames)
        taps = _tapped_layers(session.layers) if self._note else ()
        with self._stopwatch.measure("prefill"):
            step = await session.prefill(prompt.rows, frames=frames, taps=taps)
        if self._note:
            for tap, values in step.taps.items():
                self._note(f"talker-hidden-prefill-{tap if tap == 'final' else f'l{tap}'}", values)
            self._note("talker-logits-prefill", step.logits)
        return step


def _tapped_layers(layers: int) -> list[int | str]:
    """Return the layers whose output is noted: every seventh and the last, of 28 those that qwentts.cpp dumps."""
    return [*sorted({*range(0, layers, 7), layers - 1}), "final"]
