"""MaskGIT (Chang et al., "MaskGIT: Masked Generative Image Transformer", 2022) over eight codebooks of speech.

All codes begin masked. Every step guesses all of them at once, keeps the guesses that the model is surest of and leaves
the others masked; lower codebooks come first, by a penalty on the higher ones. This is what
`OmniVoice._generate_iterative` of the official package does.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError, UsageError
from ..limits import GUIDANCE, LAYER_PENALTY, MOST_STEPS, NOISE, SHIFT
from ..parameters import CLAMP_FP16
from ..speech.requests import require_kinds
from .backbone import Backbone
from .noise import Noise, PhiloxNoise, PlaceArray, gumbel
from .prompt import IntArray, OmniPrompt
from .scoring import Guess, PromptedStep, Step, StepShape, trace

FloatArray = NDArray[np.float32]

KEPT_PROGRAMS = 4
"""Programs kept for lengths that come again; each holds the activations of its own."""

LOWEST_SCORE = np.float32(-1e30)
LIKELY_SHARE = 0.1
"""Share of the codes, the most likely ones, that a class temperature draws from."""


_KINDS: dict[str, tuple[type, ...]] = {
    "steps": (Integral,),
    **dict.fromkeys(
        ("guidance", "t_shift", "layer_penalty", "position_temperature", "class_temperature"), (Real,)
    ),
    "cfg_compat": (bool,),
}


@dataclass(frozen=True)
class MaskGitOptions:
    """How the codes are found. The defaults are the official ones.

    Attributes:
        steps: passes through the model.
        guidance: how far to go beyond the conditional prediction, away from the unconditional; 0 is without.
        t_shift: below 1, fewer codes are fixed in the first steps and more in the last ones.
        layer_penalty: subtracted from the score of a code, once per codebook below its own.
        position_temperature: noise in the choice of places; 0 is none.
        class_temperature: noise in the choice of codes; 0 is none.
        cfg_compat: pad the unconditional row and let it see the padding, with a bias of 1 against 0, as the C++ program
            and the eager attention of the official package do; the package as shipped does not.

    Raises:
        UsageError: a value is no number, or outside its range.
    """

    steps: int = 32
    guidance: float = 2.0
    t_shift: float = 0.1
    layer_penalty: float = 5.0
    position_temperature: float = 5.0
    class_temperature: float = 0.0
    cfg_compat: bool = False

    def __post_init__(self) -> None:
        require_kinds(self, _KINDS)
        if not 1 <= self.steps <= MOST_STEPS:
            raise UsageError(
                f"{self.steps} steps are not usable: there must be at least 1, at most {MOST_STEPS}"
            )
        GUIDANCE.require("guidance", self.guidance)
        SHIFT.require("t-shift", self.t_shift)
        LAYER_PENALTY.require("layer penalty", self.layer_penalty)
        NOISE.require("position temperature", self.position_temperature)
        NOISE.require("class temperature", self.class_temperature)

    @property
    def greedy(self) -> bool:
        """True when no random number is used."""
        return self.position_temperature == 0 and self.class_temperature == 0


@dataclass(frozen=True)
class Progress:
    """One step that is done.

    Attributes:
        step: its number, from 0.
        steps: how many there are.
        fixed: codes that it fixed.
        codes: all codes [frames, codebooks] so far, the mask code where there is none yet.
        guess: what the model thought of the places that were masked before it.
    """

    step: int
    steps: int
    fixed: int
    codes: IntArray
    guess: Guess


def time_steps(steps: int, t_shift: float) -> list[float]:
    """Return the places 0 ... 1 (steps + 1 of them) of the schedule: s x / (1 + (s - 1) x), in float32."""
    x = np.linspace(0, 1, steps + 1).astype(np.float32)
    s = np.float32(t_shift)
    shifted: list[float] = (s * x / (1 + (s - np.float32(1)) * x)).tolist()
    return shifted


def schedule(codes: int, steps: int, t_shift: float) -> list[int]:
    """Return how many of so many codes each step fixes; the differences are taken in float64."""
    times, remaining, counts = time_steps(steps, t_shift), codes, []
    for step in range(steps):
        share = math.ceil(codes * (times[step + 1] - times[step]))
        counts.append(remaining if step == steps - 1 else min(share, remaining))
        remaining -= counts[-1]
    return counts


class MaskGit:
    """Finds the codes of speech for a prompt. Programs serve later prompts of the same lengths."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self._steps: OrderedDict[StepShape, Step] = OrderedDict()
        self._lock = threading.Lock()

    def generate(
        self,
        prompt: OmniPrompt,
        frames: int,
        options: MaskGitOptions | None = None,
        seed: int | Noise = 0,
        on_step: Callable[[Progress], None] | None = None,
    ) -> IntArray:
        """Return codes int32 [frames, codebooks].

        Args:
            prompt: what to say and how.
            frames: how long, 25 a second.
            options: None takes the defaults.
            seed: of the random numbers, or a source of them that goes on from earlier calls; not used when greedy.
            on_step: told after every step that fixed something; what it raises ends the generation.

        Raises:
            UsageError: no frames, more positions than the model was made for, or a reference of another model.
            EngineError: the device has not enough memory, or the model predicts what is no number.
        """
        options = options or MaskGitOptions()
        noise = PhiloxNoise(seed) if isinstance(seed, int) else seed
        rows = self.backbone.prompt_rows(prompt)
        program = self._step(self._shape(prompt, frames, options)).prompted(rows)
        file = self.backbone.file
        codes = np.full((frames, file.codebooks), file.mask_code, np.int32)
        counts = schedule(codes.size, options.steps, options.t_shift)
        for step, count in enumerate(counts):
            if not count:
                continue
            guess = self._guess(program, codes, options, noise)
            if np.isnan(guess.scores).any() or (guess.codes == file.mask_code).any():
                raise EngineError(
                    f"the model went astray at step {step + 1}: its predictions are no numbers"
                    f" (is the file damaged? on a GPU, {CLAMP_FP16} may help)"
                )
            codes = choose(codes, guess, count, options, noise)
            if on_step:
                on_step(Progress(step, options.steps, count, codes.copy(), guess))
        return codes

    def trace(
        self, prompt: OmniPrompt, codes: IntArray, options: MaskGitOptions | None = None
    ) -> dict[str, FloatArray]:
        """Return the stages of a step that begins with codes [frames, codebooks]; see `scoring.trace`."""
        shape = self._shape(prompt, len(codes), options or MaskGitOptions())
        return trace(self.backbone, shape, self.backbone.prompt_rows(prompt), codes)

    def _shape(self, prompt: OmniPrompt, frames: int, options: MaskGitOptions) -> StepShape:
        if frames < 1:
            raise UsageError(f"{frames} frames cannot be spoken: there must be at least 1")
        limit = self.backbone.file.context_length
        if limit and prompt.length + frames > limit:
            raise UsageError(
                f"too long: a prompt of {prompt.length} positions and {frames} frames; the model has {limit} positions"
            )
        guided = options.guidance != 0
        return StepShape(
            prompt=prompt.length,
            frames=frames,
            guided=guided,
            biased=guided and options.cfg_compat,
            distributions=options.class_temperature > 0,
        )

    def _step(self, shape: StepShape) -> Step:
        with self._lock:
            step = self._steps.pop(shape, None)
            if step is None:
                while len(self._steps) >= KEPT_PROGRAMS:
                    self._steps.popitem(last=False)
                step = Step(self.backbone, shape)
            self._steps[shape] = step
            return step

    def _guess(self, step: PromptedStep, codes: IntArray, options: MaskGitOptions, noise: Noise) -> Guess:
        if options.class_temperature == 0:
            return step.guess(codes, options.guidance)
        places, logits = step.distributions(codes, options.guidance)
        return draw_codes(
            places, logits, codes.size, options.class_temperature, noise, self.backbone.file.mask_code
        )


def draw_codes(
    places: PlaceArray, logits: FloatArray, size: int, temperature: float, noise: Noise, mask_code: int
) -> Guess:
    """Draw a code for each of some places from their guided logits [n, vocabulary].

    Only the likeliest tenth takes part. The score of a place is the log probability of its best code, not of the one
    drawn. The random numbers are those that a draw for all `size` places of the codes would have had here.
    """
    spread = np.exp(logits - logits.max(-1, keepdims=True))
    scores = logits - logits.max(-1, keepdims=True) - np.log(spread.sum(-1, keepdims=True))
    scores[:, mask_code] = -np.inf
    vocabulary = scores.shape[1]
    kept = math.ceil(LIKELY_SHARE * vocabulary)
    likely = scores >= np.partition(scores, -kept, axis=-1)[:, -kept, None]
    row, code = np.nonzero(likely)
    drawn = gumbel(noise.uniform(size * vocabulary, places[row] * vocabulary + code))
    perturbed = np.full_like(scores, -np.inf)
    perturbed[likely] = scores[likely] / np.float32(temperature) + drawn
    return Guess(places, perturbed.argmax(-1).astype(np.int32), scores.max(-1))


def choose(codes: IntArray, guess: Guess, count: int, options: MaskGitOptions, noise: Noise) -> IntArray:
    """Return codes [frames, codebooks] in which the `count` guessed places of the highest score are filled in."""
    codebook = (guess.places // len(codes)).astype(np.float32)
    # Under strong guidance a code may be all but impossible: it stays a number that can be ranked.
    ranks = np.maximum(guess.scores, LOWEST_SCORE) - codebook * np.float32(options.layer_penalty)
    if options.position_temperature > 0:
        ranks = ranks / np.float32(options.position_temperature)
        ranks = ranks + gumbel(noise.uniform(codes.size, guess.places))
    best = np.argsort(-ranks, kind="stable")[:count]
    filled = codes.T.reshape(-1).copy()
    filled[guess.places[best]] = guess.codes[best]
    return np.ascontiguousarray(filled.reshape(codes.shape[::-1]).T)
