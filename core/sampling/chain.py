"""The sampling chain of the official package: Hugging Face logits processors, in the order of `generate()`.

Repetition penalty over the distinct tokens so far (also when greedy), end of speech forbidden before a
minimum length, suppressed ids, then temperature, top-k, top-p, and one draw in vocabulary order. The
arithmetic is native (`native/sampler.cpp`); this module names it and checks what a user may get wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ... import _native
from ..errors import UsageError
from ..limits import LARGEST_COUNT, PENALTY, TEMPERATURE

__all__ = ["Draws", "SamplingOptions", "TokenRules", "TokenSampler", "sample_together"]

_NO_TOKEN = -1


@dataclass(frozen=True)
class SamplingOptions:
    """How a token is chosen from its logits. The defaults switch every step off.

    Attributes:
        do_sample: draw at random; False takes the most likely token (after the penalty).
        temperature: divides the logits; 0 is the same as `do_sample=False`.
        top_k: keep the k most likely tokens and their ties; 0 keeps all.
        top_p: keep the smallest set of likely tokens with at least this probability; 1 keeps all.
        repetition_penalty: makes tokens that were drawn before less likely; 1 is none.

    Raises:
        UsageError: a value is outside its range.
    """

    do_sample: bool = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        TEMPERATURE.require("temperature", self.temperature)
        PENALTY.require("repetition penalty", self.repetition_penalty)
        if not 0 <= self.top_k <= LARGEST_COUNT:
            raise UsageError(
                f"top-k {self.top_k} is not usable: it must be 0 (off) or above, up to {LARGEST_COUNT}"
            )
        if not 0 <= self.top_p <= 1:
            raise UsageError(f"top-p {self.top_p} is not usable: it must be between 0 and 1 (off)")

    @property
    def greedy(self) -> bool:
        """True when no random number is used."""
        return not self.do_sample or self.temperature == 0


@dataclass(frozen=True)
class TokenRules:
    """Which tokens may be chosen at all.

    Attributes:
        end_token: id that ends the sequence, exempt from suppression; None when there is none.
        suppress: ids [first, last) that are never chosen.
        minimum_tokens: the end token is impossible before this many others.
    """

    end_token: int | None = None
    suppress: tuple[int, int] = (0, 0)
    minimum_tokens: int = 0


@dataclass(frozen=True)
class Draws:
    """Names the random numbers of one utterance: one per (frame, codebook), in any order.

    Attributes:
        seed: 64-bit seed.
        codebooks: codes of one frame, K; (frame, codebook) has Philox subsequence K * frame + codebook.
    """

    seed: int
    codebooks: int

    def subsequence(self, frame: int, codebook: int) -> int:
        """Return the Philox subsequence of one code."""
        return self.codebooks * frame + codebook

    def uniform(self, frame: int, codebook: int) -> float:
        """Return the number in (0, 1] that decides one code."""
        return _native.philox_uniform(self.seed, self.subsequence(frame, codebook))


class TokenSampler:
    """Draws the tokens of one sequence, and remembers them for the penalty and the minimum length.

    One sampler belongs to one utterance and one vocabulary, and is not shared by threads.
    """

    def __init__(self, options: SamplingOptions, draws: Draws, rules: TokenRules | None = None) -> None:
        rules = rules or TokenRules()
        first, last = rules.suppress
        self._chain = _native.TokenSampler(
            do_sample=options.do_sample,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
            end_token=_NO_TOKEN if rules.end_token is None else rules.end_token,
            suppress_first=first,
            suppress_last=last,
            minimum_tokens=rules.minimum_tokens,
            seed=draws.seed,
            codebooks=draws.codebooks,
        )

    def sample(self, logits: npt.NDArray[np.float32], frame: int, codebook: int = 0) -> int:
        """Choose and remember the token of (frame, codebook) from `logits` [vocabulary], float32.

        Raises:
            ValueError: a logit is NaN or +inf, or every token is ruled out. Nothing is remembered then.
        """
        return self._chain.sample(logits, frame, codebook)

    def probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the distribution [vocabulary] that `sample` would draw from; one-hot when greedy."""
        return self._chain.probabilities(logits)

    @property
    def history(self) -> list[int]:
        """The distinct tokens drawn so far, in order of first appearance."""
        return self._chain.history

    @property
    def drawn(self) -> int:
        """How many tokens were drawn so far."""
        return self._chain.drawn


def sample_together(
    samplers: Sequence[TokenSampler],
    logits: npt.NDArray[np.float32],
    frames: Sequence[int],
    codebook: int = 0,
) -> npt.NDArray[np.int32]:
    """Choose and remember a token of each of some samplers, no sampler twice: what each would choose by itself.

    Args:
        samplers: one for each row.
        logits: [samplers, vocabulary], float32.
        frames: which frame each is at.
        codebook: of all of them.

    Returns:
        int32 [samplers]; -1 where `sample` would raise a ValueError.
    """
    chains = [sampler._chain for sampler in samplers]
    return _native.sample_together(chains, logits, frames, codebook)
