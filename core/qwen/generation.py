"""The frame loop: talker, sampler, code predictor, and what they hear next."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError, UsageError
from ..formats.qwen import TalkerFile
from ..sampling import Draws, SamplingOptions, TokenRules, TokenSampler
from ..speech.calls import alone
from ..speech.stream import StopReason
from ..speech.timings import Stopwatch
from .choices import Choose, SampledChoice
from .expanded_frame import ExpandedFrame
from .guard import Guard
from .kernel_predictor import FrameSession
from .prompt import Prompt
from .talker import TalkerSession, TalkerStep

FloatArray = NDArray[np.float32]


NoteStage = Callable[[str, NDArray[Any]], None]
"""Is given a stage of the model by its name in `core.speech.dump`."""

RESERVED_IDS = 1024
"""The last ids of the talker's vocabulary name languages, voices and control codes, and are no sound."""

MINIMUM_FRAMES = 2
"""No utterance ends before that many frames."""


class FrameSampler:
    """Draws the codes of one utterance by the chain of the official package (`generate` of both its models).

    A code depends on its logits, the seed, its frame and its codebook, and on the first codes of earlier frames.
    """

    def __init__(
        self, file: TalkerFile, talker: SamplingOptions, predictor: SamplingOptions, seed: int
    ) -> None:
        draws = Draws(seed, file.codebooks)
        rules = TokenRules(
            end_token=file.tokens.codec_end,
            suppress=(file.vocabulary - RESERVED_IDS, file.vocabulary),
            minimum_tokens=MINIMUM_FRAMES,
        )
        self.end_token = file.tokens.codec_end
        self._talker = TokenSampler(talker, draws, rules)
        self._predictor = TokenSampler(predictor, draws)
        self._predictor_options, self._seed = predictor, seed

    def first(self, frame: int, logits: FloatArray) -> int:
        """Draw the first code of a frame, or the end token, from logits [vocabulary].

        Raises:
            EngineError: the logits are no numbers.
        """
        return _sample(self._talker, logits, frame, 0)

    def other(self, frame: int, logits: FloatArray, codebook: int) -> int:
        """Draw another code of a frame from logits [entries].

        Raises:
            EngineError: the logits are no numbers.
        """
        return _sample(self._predictor, logits, frame, codebook)

    def others(self, frame: int) -> SampledChoice:
        """Return what draws the other codes of a frame, here or on a device."""
        return SampledChoice(self._predictor_options, self._seed, frame, self.other)


def _sample(sampler: TokenSampler, logits: FloatArray, frame: int, codebook: int) -> int:
    try:
        return sampler.sample(logits, frame, codebook)
    except ValueError as error:
        raise EngineError(f"the model went astray at frame {frame}, codebook {codebook}: {error}") from error


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

    async def decode(self, row: FloatArray) -> TalkerStep:
        """`TalkerSession.decode`."""

    async def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """`CodePredictorSession.expand`."""

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

    async def decode(self, row: FloatArray) -> TalkerStep:
        """`TalkerSession.decode`."""
        return self.talker.decode(row)

    async def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """`CodePredictorSession.expand`."""
        return self.predictor.expand(hidden, first, choose)

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
        session, prompt = self._session, self._prompt
        step = await self._begin()
        for frame in range(self._max_frames):
            first = self._sampler.first(frame, step.logits)
            if first == self._sampler.end_token:
                self.stop = "end_of_speech"
                return
            with self._stopwatch.measure("predictor"):
                expanded = await session.expand(step.hidden, first, self._sampler.others(frame))
            self._stopwatch.mark("first_frame")
            yield expanded.codes
            self.stop = self._reason_to_stop(frame, expanded.codes)
            if self.stop:
                return
            row = expanded.embedding + prompt.text_row(frame)
            with self._stopwatch.measure("talker"):
                step = await session.decode(row)
            if frame == 0 and self._note:
                self._note("codes-step0", expanded.codes)
                self._note("next-emb-step0", row)
                self._note("talker-hidden-step1", step.hidden)

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
