"""Sessions of several utterances whose calls are made together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..speech.calls import Stage
from .choices import Choose
from .code_predictor import CodePredictor
from .code_predictor_batch import predictor_batch
from .expanded_frame import ExpandedFrame
from .kernel_predictor import FrameBatch
from .talker import Talker, TalkerStep
from .talker_batch import TalkerBatch, TalkerSlot

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Prefill:
    """What `TalkerBatch.prefill` is asked."""

    slot: TalkerSlot
    prompt: FloatArray
    frames: int
    taps: Sequence[int | str]


@dataclass(frozen=True)
class Decode:
    """What `TalkerBatch.decode` is asked for one utterance: its next input, [width]."""

    slot: TalkerSlot
    row: FloatArray


@dataclass(frozen=True)
class Expand:
    """What `CodePredictorBatch.expand` is asked for one utterance: the talker's state [width] and code 0."""

    hidden: FloatArray
    first: int
    choose: Choose


class PrefillStage(Stage[Prefill, TalkerStep]):
    """Prompts, one in each step, so that newcomers do not keep those waiting who speak already."""

    at_once = 1

    def __init__(self, talker: TalkerBatch) -> None:
        self._talker = talker

    def run(self, arguments: Sequence[Prefill]) -> list[TalkerStep | Exception]:
        """Begin sequences."""
        return [
            self._talker.prefill(asked.slot, asked.prompt, frames=asked.frames, taps=asked.taps)
            for asked in arguments
        ]


class DecodeStage(Stage[Decode, TalkerStep]):
    """The talker's next positions."""

    def __init__(self, talker: TalkerBatch) -> None:
        self._talker = talker

    def run(self, arguments: Sequence[Decode]) -> list[TalkerStep]:
        """Add a position to each sequence."""
        rows = np.stack([asked.row for asked in arguments])
        return self._talker.decode([asked.slot for asked in arguments], rows)


class ExpandStage(Stage[Expand, ExpandedFrame]):
    """The code predictor's frames."""

    def __init__(self, predictor: FrameBatch) -> None:
        self._predictor = predictor

    def run(self, arguments: Sequence[Expand]) -> list[ExpandedFrame | Exception]:
        """Complete a frame for each utterance."""
        hiddens = np.stack([asked.hidden for asked in arguments])
        firsts = [asked.first for asked in arguments]
        return self._predictor.expand(hiddens, firsts, [asked.choose for asked in arguments])


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
        self.talker = TalkerBatch(talker, kv_type)
        self.predictor = predictor_batch(predictor, kv_type, capacity)
        self.give_way = GiveWayStage()
        self.prefill = PrefillStage(self.talker)
        self.decode = DecodeStage(self.talker)
        self.expand = ExpandStage(self.predictor)
        self.stages = (self.give_way, self.prefill, self.decode, self.expand)

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

    async def decode(self, row: FloatArray) -> TalkerStep:
        """`TalkerSession.decode`."""
        return await self._batch.decode.call(Decode(self._slot, row))

    async def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """`CodePredictorSession.expand`."""
        return await self._batch.expand.call(Expand(hidden, first, choose))

    async def give_way(self) -> None:
        """Let others take a step, in the middle of long work of another kind."""
        await self._batch.give_way.call(None)
