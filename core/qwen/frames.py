"""The frames of an utterance: what is needed for the next one, and what becomes of it.

Between two frames of an utterance the talker hears the last one and names the first code of the next, and the code
predictor adds the others. That is repeated without resuming the utterance until it has something else to do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError
from ..formats.qwen import TalkerFile
from ..sampling import Draws, SamplingOptions, TokenRules, TokenSampler, sample_together
from .choices import Chooser, SampledChoice, draw_code
from .expanded_frame import ExpandedFrame
from .talker import TalkerStep

FloatArray = NDArray[np.float32]

RESERVED_IDS = 1024
"""The last ids of the talker's vocabulary name languages, voices and control codes, and are no sound."""

MINIMUM_FRAMES = 2
"""No utterance ends before that many frames."""

FAILED = -1
"""What `sample_together` draws where it cannot."""


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
        self.talker = TokenSampler(talker, draws, rules)
        self.predictor = TokenSampler(predictor, draws)
        self._chooser = Chooser(predictor, seed, self.predictor)

    def first(self, frame: int, logits: FloatArray) -> int:
        """Draw the first code of a frame, or the end token, from logits [vocabulary].

        Raises:
            EngineError: the logits are no numbers.
        """
        return draw_code(self.talker, logits, frame, 0)

    def other(self, frame: int, logits: FloatArray, codebook: int) -> int:
        """Draw another code of a frame from logits [entries].

        Raises:
            EngineError: the logits are no numbers.
        """
        return draw_code(self.predictor, logits, frame, codebook)

    def others(self, frame: int) -> SampledChoice:
        """Return what draws the other codes of a frame, here or on a device."""
        return SampledChoice(self._chooser, frame)


class FrameLine(ABC):
    """An utterance as the models see it, frame by frame.

    Attributes:
        frame: number of the next frame.
        sampler: draws its codes.
        heard: what the talker says after the prompt, for the first frame.
        before, text: for later ones, what the talker hears: the sum of what the last frame adds, [width], and of its
            row of text, [width].
    """

    frame: int
    sampler: FrameSampler
    heard: TalkerStep | None
    before: FloatArray
    text: FloatArray

    @property
    @abstractmethod
    def following_text(self) -> FloatArray | None:
        """The row of text [width] that goes with the next frame, None if surely no other frame follows that one."""

    @abstractmethod
    def take(self, made: ExpandedFrame, hidden: FloatArray) -> bool:
        """Take the next frame, made from the talker's normed state `hidden` [width]; tell whether that is all for now.

        Raises:
            BaseException: whoever hears of the frame ends the utterance.
        """

    @abstractmethod
    def end(self, hidden: FloatArray) -> None:
        """Take note that speech ends instead of the next frame."""


def first_codes(lines: Sequence[FrameLine], logits: FloatArray) -> list[int | Exception]:
    """Draw the first code of the next frame of each line, or its end token, from logits [frames, vocabulary].

    Where one fails, its place has the EngineError.
    """
    drawn = sample_together([line.sampler.talker for line in lines], logits, [line.frame for line in lines])
    codes: list[int | Exception] = drawn.tolist()
    if FAILED in codes:
        for place, line in enumerate(lines):
            if codes[place] == FAILED:
                try:
                    codes[place] = line.sampler.first(line.frame, logits[place])
                except EngineError as error:
                    codes[place] = error
    return codes


class Clock:
    """Measures one thing after the other."""

    def __init__(self) -> None:
        self._last = perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        last, self._last = self._last, perf_counter()
        return self._last - last
