"""Sessions of several utterances whose calls are made together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import sums_of_rows
from ..errors import EngineError
from ..speech.calls import UNFINISHED, Call, Stage, Unfinished
from ..speech.stream import Cancelled
from ..speech.timings import Stopwatch
from .code_predictor import CodePredictor
from .code_predictor_batch import predictor_batch
from .expanded_frame import ExpandedFrame
from .frames import Clock, FrameLine, first_codes
from .kernel_predictor import FrameBatch
from .steps_under_way import StepsUnderWay, TalkerSlot
from .talker import Talker, TalkerStep
from .talker_batch import Prefill, TalkerBatch

FloatArray = NDArray[np.float32]

_logger = logging.getLogger("ggtts.qwen")


@dataclass(frozen=True, eq=False)
class NextFrames:
    """Asks for the next frames of an utterance."""

    slot: TalkerSlot
    line: FrameLine


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


class Ahead:
    """What the talker will say to some lines.

    Attributes:
        lines: those that hear it, if they still want to.
        steps: of their slots.
        places: which line is in which row.
    """

    def __init__(self, lines: list[FrameLine], steps: StepsUnderWay) -> None:
        self.lines, self.steps = lines, steps
        self.places = {line: place for place, line in enumerate(lines)}

    def heard_by(self, lines: Sequence[FrameLine]) -> tuple[FloatArray, FloatArray]:
        """Return logits and hidden states of the first of some lines, as many as hear them in the order of rows.

        Those who are not there may come back, and find theirs as `FrameLine.heard`.

        Raises:
            EngineError: the device failed.
        """
        logits, hiddens = self.steps.result()
        if lines == self.lines:
            return logits, hiddens
        left = dict(self.places)
        places = [left.pop(line) for line in lines if line in self.places]
        for line, place in left.items():
            line.heard = TalkerStep(logits[place].copy(), hiddens[place].copy())
        return logits[places], hiddens[places]


class FrameStage(Stage[NextFrames, None]):
    """The next frames of all: one run of the talker, one draw of first codes, one run of the code predictor.

    A call goes on, step by step, until its utterance has heard enough.

    Attributes:
        seconds: what the last frames took.
        talker_seconds, predictor_seconds: what both have taken so far.
    """

    def __init__(self, talker: TalkerBatch, predictor: FrameBatch) -> None:
        self._talker, self._predictor = talker, predictor
        self._ahead: Ahead | None = None
        self.seconds = 0.0
        self.talker_seconds = self.predictor_seconds = 0.0

    def pick(self, waiting: Sequence[Call[NextFrames, None]]) -> list[Call[NextFrames, None]]:
        """Return all of them: in front those whose steps are under way, in their order."""
        ahead = self._ahead
        if ahead is None or [call.argument.line for call in waiting] == ahead.lines:
            return list(waiting)
        places = ahead.places
        return sorted(waiting, key=lambda call: places.get(call.argument.line, len(places)))

    def clear(self) -> None:
        """Let go of what is under way, when no utterance goes on."""
        self._ahead = None

    def run(self, arguments: Sequence[NextFrames]) -> list[BaseException | Unfinished | None]:
        """Make a frame for each utterance that goes on."""
        clock = Clock()
        lines = [asked.line for asked in arguments]
        ahead = self._ahead
        logits, hiddens = self._heard(arguments, lines)
        talker_seconds = clock.lap() if ahead is None else ahead.steps.seconds
        self.talker_seconds += talker_seconds
        firsts = first_codes(lines, logits)
        answers: list[BaseException | Unfinished | None] = [
            first if isinstance(first, Exception) else UNFINISHED for first in firsts
        ]
        going = []
        for place, (line, first) in enumerate(zip(lines, firsts, strict=True)):
            if first == line.sampler.end_token:
                answers[place] = _ended(line, hiddens[place])
            elif answers[place] is UNFINISHED:
                going.append(place)
        drawing_seconds = clock.lap()
        if going:
            expanded = self._expanded(lines, firsts, hiddens, going)
            predictor_seconds = clock.lap()
            self.predictor_seconds += predictor_seconds
            self.seconds = talker_seconds + drawing_seconds + predictor_seconds
            self._begin_next([arguments[place] for place in going], expanded)
            for place, made in zip(going, expanded, strict=True):
                answers[place] = _taken(lines[place], made, hiddens[place])
        return answers

    def _expanded(
        self,
        lines: Sequence[FrameLine],
        firsts: Sequence[int | Exception],
        hiddens: FloatArray,
        going: Sequence[int],
    ) -> list[ExpandedFrame | Exception]:
        """Return the frames of the lines whose places are in `going`."""
        choices = [lines[place].sampler.others(lines[place].frame) for place in going]
        known = hiddens if len(going) == len(lines) else hiddens[going]
        return self._predictor.expand(known, [firsts[place] for place in going], choices)  # type: ignore[misc]

    def _begin_next(
        self, arguments: Sequence[NextFrames], expanded: Sequence[ExpandedFrame | Exception]
    ) -> None:
        """Let the talker hear the frames that were made, before anybody else does, where a device works beside.

        Whoever has heard enough of speech then will not hear what the talker says to it.
        """
        # An utterance that begins waits for the codec, which needs the device.
        begins = any(asked.line.frame == 0 for asked in arguments)
        if begins or not self._talker.works_beside:
            return
        going = [
            (asked, made.embedding, text)
            for asked, made in zip(arguments, expanded, strict=True)
            if isinstance(made, ExpandedFrame) and (text := asked.line.following_text) is not None
        ]
        if len(going) > 1:  # one alone is sooner done than begun
            follow, frames, texts = zip(*going, strict=True)
            with suppress(EngineError):  # which the next step meets, too
                steps = self._talker.begin([asked.slot for asked in follow], sums_of_rows(frames, texts))
                self._ahead = None if steps is None else Ahead([asked.line for asked in follow], steps)

    def _heard(
        self, arguments: Sequence[NextFrames], lines: Sequence[FrameLine]
    ) -> tuple[FloatArray, FloatArray]:
        """Return what the talker says to each: logits [n, vocabulary] and hidden states [n, width]."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            found = ahead.heard_by(lines)
            count = len(found[0])
            if count == len(lines):
                return found
            rest = self._heard(arguments[count:], lines[count:])
            return np.concatenate([found[0], rest[0]]), np.concatenate([found[1], rest[1]])
        later = [place for place, line in enumerate(lines) if line.heard is None]
        if len(later) == len(lines):
            return self._decoded(arguments)
        said: Iterator[tuple[FloatArray, FloatArray]] = iter(())
        if later:
            said = zip(*self._decoded([arguments[place] for place in later]), strict=True)
        pairs = [(step.logits, step.hidden) if (step := line.heard) else next(said) for line in lines]
        return np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])

    def _decoded(self, arguments: Sequence[NextFrames]) -> tuple[FloatArray, FloatArray]:
        rows = sums_of_rows(
            [asked.line.before for asked in arguments], [asked.line.text for asked in arguments]
        )
        return self._talker.decode_arrays([asked.slot for asked in arguments], rows)


def _taken(
    line: FrameLine, made: ExpandedFrame | Exception, hidden: FloatArray
) -> BaseException | Unfinished | None:
    """Let a line take its frame; return the outcome of its call."""
    if isinstance(made, Exception):
        return made
    try:
        return None if line.take(made, hidden) else UNFINISHED
    except Cancelled as gone:
        return gone.with_traceback(None)  # the frames where it was raised hold it in their turn
    except BaseException as error:  # whatever it is, it belongs to this line alone
        return error


def _ended(line: FrameLine, hidden: FloatArray) -> BaseException | None:
    """Let a line end; return the outcome of its call."""
    try:
        line.end(hidden)
        return None
    except BaseException as error:  # whatever it is, it belongs to this line alone
        return error


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
        self.frames.clear()
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

    async def frames(self, line: FrameLine, stopwatch: Stopwatch) -> None:
        """Make the next frames, until the line has taken enough or ended."""
        stage = self._batch.frames
        talker_seconds, predictor_seconds = stage.talker_seconds, stage.predictor_seconds
        await stage.call(NextFrames(self._slot, line))
        stopwatch.add("talker", stage.talker_seconds - talker_seconds)
        stopwatch.add("predictor", stage.predictor_seconds - predictor_seconds)

    async def give_way(self) -> None:
        """Let others take a step, in the middle of long work of another kind."""
        await self._batch.give_way.call(None)
