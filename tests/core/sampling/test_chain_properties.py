"""The native chain against a NumPy reference on arbitrary logits and options.

The reference is written from transformers' logits processors, one statement per step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.sampling import Draws, SamplingOptions, TokenRules, TokenSampler


def softmax(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Softmax in which impossible tokens (-inf) have weight zero."""
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def processed(
    logits: npt.NDArray[np.float32], history: Sequence[int], options: SamplingOptions, rules: TokenRules
) -> npt.NDArray[np.float64]:
    """Scores after the processors that also act on greedy choice. `history` holds every token so far."""
    scores = logits.astype(np.float64)
    for token in set(history):
        score = scores[token]
        scores[token] = (
            score * options.repetition_penalty if score < 0 else score / options.repetition_penalty
        )
    first, last = rules.suppress
    suppressed = [token for token in range(first, min(last, len(scores))) if token != rules.end_token]
    scores[suppressed] = -np.inf
    if rules.end_token is not None and len(history) < rules.minimum_tokens:
        scores[rules.end_token] = -np.inf
    return scores


def probabilities(
    logits: npt.NDArray[np.float32], history: Sequence[int], options: SamplingOptions, rules: TokenRules
) -> npt.NDArray[np.float64]:
    """The distribution that the draw uses; one-hot at the first maximum when greedy."""
    scores = processed(logits, history, options, rules)
    if options.greedy:
        return np.eye(len(scores))[scores.argmax()]
    scores = scores / options.temperature
    if 0 < options.top_k < len(scores):
        scores[scores < np.sort(scores)[-options.top_k]] = -np.inf
    if options.top_p < 1:
        ascending = np.argsort(scores, kind="stable")
        cumulative = np.cumsum(softmax(scores)[ascending]).astype(np.float32)
        removed = cumulative <= np.float32(1 - options.top_p)
        removed[-1] = False
        scores[ascending[removed]] = -np.inf
    return softmax(scores)


def pick(distribution: npt.NDArray[np.float64], uniform: float) -> int:
    """First token, in vocabulary order, whose cumulative probability reaches `uniform`."""
    possible = np.flatnonzero(distribution)
    cumulative = np.cumsum(distribution[possible])
    reached = np.flatnonzero(cumulative >= uniform)
    return int(possible[reached[0]] if len(reached) else possible[-1])


# Scores on a coarse grid: ties are common, and no two scores are close enough for rounding to swap them.
SCORES = st.integers(-24, 24).map(lambda step: step / 8)
TEMPERATURES = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0, 1.7])
PENALTIES = st.sampled_from([1.0, 1.05, 1.3])


@st.composite
def cases(draw: Any) -> tuple[list[npt.NDArray[np.float32]], SamplingOptions, TokenRules, int]:
    size = draw(st.integers(2, 24))
    steps = draw(st.lists(st.lists(SCORES, min_size=size, max_size=size), min_size=1, max_size=6))
    options = SamplingOptions(
        do_sample=draw(st.booleans()),
        temperature=draw(TEMPERATURES),
        top_k=draw(st.integers(0, size + 2)),
        top_p=draw(st.floats(0, 1)),
        repetition_penalty=draw(PENALTIES),
    )
    first = draw(st.integers(1, size))
    rules = TokenRules(
        end_token=draw(st.one_of(st.none(), st.integers(1, size - 1))),
        suppress=(first, draw(st.integers(first, size + 3))),
        minimum_tokens=draw(st.integers(0, 3)),
    )
    return [np.array(step, np.float32) for step in steps], options, rules, draw(st.integers(0, 2**64 - 1))


def near_a_top_p_tie(reference: npt.NDArray[np.float64], native: npt.NDArray[np.float32]) -> bool:
    """True when one kept a token at the very edge of top-p that the other, rounding differently, dropped."""
    return bool(((reference > 0) != (native > 0)).any())


@settings(max_examples=400, deadline=None)
@given(cases())
def test_distribution_and_draws_match_the_reference(
    case: tuple[list[npt.NDArray[np.float32]], SamplingOptions, TokenRules, int],
) -> None:
    steps, options, rules, seed = case
    draws = Draws(seed, codebooks=3)
    sampler = TokenSampler(options, draws, rules)
    history: list[int] = []
    for frame, logits in enumerate(steps):
        reference = probabilities(logits, history, options, rules)
        native = sampler.probabilities(logits)
        token = sampler.sample(logits, frame, codebook=1)
        history.append(token)
        assert native[token] > 0
        if near_a_top_p_tie(reference, native):
            assert options.top_p < 1
            continue
        np.testing.assert_allclose(native, reference, atol=2e-6)
        expected = pick(reference, draws.uniform(frame, 1))
        assert (
            token == expected
            or abs(np.cumsum(reference)[min(token, expected)] - draws.uniform(frame, 1)) < 1e-6
        )
    assert sampler.history == list(dict.fromkeys(history))


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(12)), st.integers(0, 2**64 - 1))
def test_a_draw_depends_on_its_place_only(order: list[int], seed: int) -> None:
    """Frames drawn in any order, alone or interleaved, give the same tokens."""
    logits = np.random.default_rng(5).normal(size=(12, 40)).astype(np.float32)
    options = SamplingOptions(temperature=0.9, top_k=20, top_p=0.95)

    def tokens(frames: list[int]) -> dict[int, int]:
        sampler = TokenSampler(options, Draws(seed, codebooks=4))
        return {frame: sampler.sample(logits[frame], frame, codebook=2) for frame in frames}

    assert tokens(order) == tokens(list(range(12)))


def test_frequencies_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.125, 0.25, 0.125], np.float32))
    sampler = TokenSampler(SamplingOptions(), Draws(seed=9, codebooks=16))
    tokens = [sampler.sample(logits, frame) for frame in range(8000)]
    counts = np.bincount(tokens, minlength=4)
    assert np.abs(counts - 8000 * np.exp(logits)).max() < 5 * np.sqrt(2000)
