"""How the codes of a frame are chosen from their logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine.predictor_plan import FrameDraw
from ..errors import EngineError
from ..sampling import SamplingOptions, TokenSampler, sample_together

FloatArray = NDArray[np.float32]

Choose = Callable[[FloatArray, int], int]
"""(logits [entries], codebook) -> code."""


@dataclass(frozen=True, eq=False)
class Chooser:
    """How all frames of an utterance are chosen.

    Attributes:
        options: the chain; without a repetition penalty, for a device remembers no codes.
        seed: of the utterance.
        sampler: the chain on the host.
    """

    options: SamplingOptions
    seed: int
    sampler: TokenSampler

    @cached_property
    def on_device(self) -> FrameDraw:
        """The chain as a device takes it, for the first frame."""
        options = self.options
        return FrameDraw(
            do_sample=options.do_sample,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            seed=self.seed,
            frame=0,
        )


@dataclass(slots=True, eq=False)
class SampledChoice:
    """A `Choose` for one frame that also says what it does: a device can do the same, where the logits are.

    Attributes:
        chooser: of its utterance.
        frame: number of the frame.
    """

    chooser: Chooser
    frame: int

    def __call__(self, logits: FloatArray, codebook: int) -> int:
        """Draw the code of a codebook."""
        return draw_code(self.chooser.sampler, logits, self.frame, codebook)


def draw_code(sampler: TokenSampler, logits: FloatArray, frame: int, codebook: int) -> int:
    """Draw a code from logits [entries].

    Raises:
        EngineError: the logits are no numbers.
    """
    try:
        return sampler.sample(logits, frame, codebook)
    except ValueError as error:
        raise EngineError(f"the model went astray at frame {frame}, codebook {codebook}: {error}") from error


def sampled(choices: Sequence[Choose]) -> list[SampledChoice] | None:
    """Return choices that all say what they do; None if one does not."""
    known = [choice for choice in choices if type(choice) is SampledChoice]
    return known if len(known) == len(choices) else None


class Choices:
    """The choices of several frames, made together where they are known.

    Attributes:
        failures: what the choices of a frame raised, by its place.
    """

    def __init__(self, choices: Sequence[Choose]) -> None:
        self.failures: dict[int, Exception] = {}
        self._choices = choices
        known = sampled(choices)
        self._samplers = None if known is None else [choice.chooser.sampler for choice in known]
        self._frames = [] if known is None else [choice.frame for choice in known]

    def codes(self, logits: FloatArray, codebook: int) -> NDArray[np.int32]:
        """Return a code for each frame, int32 [frames], from logits [frames, entries]; 0 where there is none."""
        if self._samplers is None:
            return np.array([self._one(place, row, codebook) for place, row in enumerate(logits)], np.int32)
        codes = sample_together(self._samplers, logits, self._frames, codebook)
        if codes.min() < 0:
            for place in np.flatnonzero(codes < 0):
                codes[place] = self._one(int(place), logits[place], codebook)
        return codes

    def _one(self, place: int, logits: FloatArray, codebook: int) -> int:
        if place not in self.failures:
            try:
                return self._choices[place](logits, codebook)
            except Exception as error:
                self.failures[place] = error
        return 0
