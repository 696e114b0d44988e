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
from .frames import RESERVED_IDS, Clock, FrameAsked, FrameMade, FrameSampler
from .guard import Guard
from .kernel_predictor import FrameSession
from .prompt import Prompt
from .talker import TalkerSession, TalkerStep

FloatArray = NDArray[np.float32]


__all__ = ["RESERVED_IDS", "AnySession", "FrameSampler", "Session", "Utterance"]

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

    async def frame(self, asked: FrameAsked) -> FrameMade:
        """Make the next frame, or find that there is none."""

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

    async def frame(self, asked: FrameAsked) -> FrameMade:
        """Make the next frame, or find that there is none."""
        clock = Clock()
        step = asked.heard or self.talker.decode(asked.before + asked.text)
        talker_seconds = clock.lap() if asked.heard is None else 0.0
        first = asked.sampler.first(asked.frame, step.logits)
        if first == asked.sampler.end_token:
            return FrameMade(None, step.hidden, talker_seconds, 0.0)
        clock.lap()
        expanded = self.predictor.expand(step.hidden, first, asked.sampler.others(asked.frame))
        return FrameMade(expanded, step.hidden, talker_seconds, clock.lap())

    async def give_way(self) -> None:
        """There are no others."""


class Utterance:
    """The frames of one utterance, each computed when it is asked for: an async iterable, and where its session never
    waits for others a plain one too.

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
        self._session = session
        self._prompt = prompt
        self._sampler = sampler
        self._guard = guard
        self._max_frames = max_frames
        self._stopwatch = stopwatch
        self._note = note

    def __iter__(self) -> Generator[NDArray[np.int32], None, None]:
        """Yield what the async iteration does."""
        return alone(self.__aiter__())

    async def __aiter__(self) -> AsyncGenerator[NDArray[np.int32], None]:
        """Yield the codes of one frame after the other, int32 [codebooks].

        Raises:
            UsageError: the prompt does not fit the context of the model.
            EngineError: the device failed or ran out of memory.
        """
        prompt, stopwatch = self._prompt, self._stopwatch
        heard: TalkerStep | None = await self._begin()
        before = text = prompt.padding
        for frame in range(self._max_frames):
            made = await self._session.frame(FrameAsked(frame, self._sampler, heard, before, text))
            heard = None
            stopwatch.add("talker", made.talker_seconds)
            stopwatch.add("predictor", made.predictor_seconds)
            if frame == 1 and self._note:
                self._note("next-emb-step0", before + text)
                self._note("talker-hidden-step1", made.hidden)
            if made.expanded is None:
                self.stop = "end_of_speech"
                return
            if frame == 0:
                stopwatch.mark("first_frame")
                if self._note:
                    self._note("codes-step0", made.expanded.codes)
            yield made.expanded.codes
            self.stop = self._reason_to_stop(frame, made.expanded.codes)
            if self.stop:
                return
            before, text = made.expanded.embedding, prompt.text_row(frame)

    def _reason_to_stop(self, frame: int, codes: NDArray[np.int32]) -> StopReason | None:
        """Return why there will be no frame after this one, None if there may be."""
        if frame + 1 == self._max_frames:
            return "max_frames"
        self.runaway = self._guard.notice(codes) if self._guard else None
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
