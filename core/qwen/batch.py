"""Sessions of several utterances whose calls are made together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..speech.calls import Call, Stage
from .code_predictor import CodePredictor
from .code_predictor_batch import predictor_batch
from .frames import Clock, FrameAsked, FrameMade, first_codes
from .kernel_predictor import FrameBatch
from .talker import Talker, TalkerStep
from .talker_batch import Prefill, TalkerBatch, TalkerSlot

FloatArray = NDArray[np.float32]

_logger = logging.getLogger("ggtts.qwen")


@dataclass(frozen=True, eq=False)
class NextFrame:
    """Asks for the next frame of an utterance."""

    slot: TalkerSlot
    asked: FrameAsked


class PrefillStage(Stage[Prefill, TalkerStep]):
    """Prompts: in each step one run, or as many as take no longer than the frames of those who speak already.

    A run begins one sequence, or a group of them where the device is faster with several.
    """

    def __init__(self, talker: TalkerBatch, frames: FrameStage) -> None:
        self._talker, self._frames = talker, frames
        self._seconds = 0.0  # of one run, lately

    def pick(self, waiting: Sequence[Call[Prefill, TalkerStep]]) -> list[Call[Prefill, TalkerStep]]:
        """Return the first ones, and those that are computed together with them."""
        fitting = int(self._frames.seconds / self._seconds) if self._seconds else 1
        groups = self._talker.groups([call.argument for call in waiting])
        return [waiting[place] for group in groups[: max(1, fitting)] for place in group]

    def run(self, arguments: Sequence[Prefill]) -> list[TalkerStep | Exception]:
        """Begin sequences."""
        answers: dict[int, TalkerStep | Exception] = {}
        for group in self._talker.groups(arguments):
            steps = self._begun_together([arguments[place] for place in group])
            answers.update(zip(group, steps, strict=True))
        return [answers[place] for place in range(len(arguments))]

    def _begun_together(self, group: Sequence[Prefill]) -> Sequence[TalkerStep | Exception]:
        if len(group) > 1:
            clock = Clock()
            try:
                return self._talker.prefill_together(group)
            except Exception as error:
                # Whose fault it is shows when each begins alone.
                _logger.info("%s: beginning %d speeches one after the other", error, len(group))
            finally:
                self._seconds = clock.lap()
        return [self._begun(asked) for asked in group]

    def _begun(self, asked: Prefill) -> TalkerStep | Exception:
        clock = Clock()
        try:
            return self._talker.prefill(asked.slot, asked.prompt, frames=asked.frames, taps=asked.taps)
        except Exception as error:
            return error
        finally:
            self._seconds = clock.lap()


class FrameStage(Stage[NextFrame, FrameMade]):
    """The next frames of all: one run of the talker, one draw of first codes, one run of the code predictor.

    Attributes:
        seconds: what the last ones took.
    """

    def __init__(self, talker: TalkerBatch, predictor: FrameBatch) -> None:
        self._talker, self._predictor = talker, predictor
        self.seconds = 0.0

    def run(self, arguments: Sequence[NextFrame]) -> list[FrameMade | Exception]:
        """Make a frame for each utterance that goes on."""
        clock = Clock()
        asked = [one.asked for one in arguments]
        logits, hiddens = self._heard(arguments)
        talker_seconds = clock.lap()
        firsts = first_codes(asked, logits)
        answers: list[FrameMade | Exception] = [
            first if isinstance(first, Exception) else FrameMade(None, hidden, talker_seconds, 0.0)
            for first, hidden in zip(firsts, hiddens, strict=True)
        ]
        going = [
            place
            for place, first in enumerate(firsts)
            if not isinstance(first, Exception) and first != asked[place].sampler.end_token
        ]
        drawing_seconds = clock.lap()
        if going:
            known = hiddens if len(going) == len(asked) else hiddens[going]
            choices = [asked[place].sampler.others(asked[place].frame) for place in going]
            expanded = self._predictor.expand(known, [firsts[place] for place in going], choices)  # type: ignore[misc]
            predictor_seconds = clock.lap()
            for place, frame in zip(going, expanded, strict=True):
                answers[place] = (
                    frame
                    if isinstance(frame, Exception)
                    else FrameMade(frame, hiddens[place], talker_seconds, predictor_seconds)
                )
            self.seconds = talker_seconds + drawing_seconds + predictor_seconds
        return answers

    def _heard(self, arguments: Sequence[NextFrame]) -> tuple[FloatArray, FloatArray]:
        """Return what the talker says to each: logits [n, vocabulary] and hidden states [n, width]."""
        later = [place for place, one in enumerate(arguments) if one.asked.heard is None]
        if not later:
            steps = [one.asked.heard for one in arguments if one.asked.heard]
            return np.stack([step.logits for step in steps]), np.stack([step.hidden for step in steps])
        rows = np.stack([arguments[place].asked.before for place in later])
        rows += np.stack([arguments[place].asked.text for place in later])
        logits, hiddens = self._talker.decode_arrays([arguments[place].slot for place in later], rows)
        if len(later) == len(arguments):
            return logits, hiddens
        known = [one.asked.heard for one in arguments]
        said = iter(zip(logits, hiddens, strict=True))
        pairs = [(step.logits, step.hidden) if step else next(said) for step in known]
        return np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])


class GiveWayStage(Stage[None, None]):
    """Long work of another kind, as wide batches of the codec: one piece of it in each step."""

    at_once = 1

    def run(self, arguments: Sequence[None]) -> list[None]:
        """Do nothing: the speech goes on when it is resumed."""
        return [None for _ in arguments]


class Batch:
    """Lends sessions to up to `capacity` utterances, and has the stages that make their calls.

    Attributes:
        stages: in the order of one step.
    """

    def __init__(self, talker: Talker, predictor: CodePredictor, kv_type: str, capacity: int) -> None:
        self.talker = TalkerBatch(talker, kv_type, capacity)
        self.predictor = predictor_batch(predictor, kv_type, capacity)
        self.give_way = GiveWayStage()
        self.frames = FrameStage(self.talker, self.predictor)
        self.prefill = PrefillStage(self.talker, self.frames)
        self.stages: tuple[Stage[Any, Any], ...] = (self.give_way, self.prefill, self.frames)

    @contextmanager
    def lend(self) -> Iterator[BatchSession]:
        """Lend a session; nothing is allocated before its prefill."""
        slot = self.talker.join()
        try:
            yield BatchSession(self, slot)
        finally:
            self.talker.leave(slot)

    def clear(self) -> None:
        """Let go of memory and programs, when no session is lent."""
        self.talker.clear()
        self.predictor.clear()


class BatchSession:
    """One utterance at a time in a batch."""

    def __init__(self, batch: Batch, slot: TalkerSlot) -> None:
        self._batch, self._slot = batch, slot

    @property
    def layers(self) -> int:
        """How many layers the talker has."""
        return self._batch.talker.layers

    @property
    def limit(self) -> int | None:
        """Positions that the context of the talker has, None where the file states none."""
        return self._batch.talker.limit

    @property
    def full(self) -> bool:
        """Whether the context has no room for another position."""
        return self._batch.talker.is_full(self._slot)

    async def prefill(self, prompt: FloatArray, *, frames: int, taps: Sequence[int | str]) -> TalkerStep:
        """`TalkerSession.prefill`."""
        return await self._batch.prefill.call(Prefill(self._slot, prompt, frames, taps))

    async def frame(self, asked: FrameAsked) -> FrameMade:
        """Make the next frame, or find that there is none."""
        return await self._batch.frames.call(NextFrame(self._slot, asked))

    async def give_way(self) -> None:
        """Let others take a step, in the middle of long work of another kind."""
        await self._batch.give_way.call(None)
