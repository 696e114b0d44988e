"""The sampling chain: single steps, edge cases, and what the caller is told."""

import numpy as np
import numpy.typing as npt
import pytest

from ggtts.core.errors import UsageError
from ggtts.core.sampling import Draws, SamplingOptions, TokenRules, TokenSampler, sample_together

GREEDY = SamplingOptions(do_sample=False)


def sampler(
    options: SamplingOptions = GREEDY, rules: TokenRules | None = None, seed: int = 42, codebooks: int = 16
) -> TokenSampler:
    return TokenSampler(options, Draws(seed, codebooks), rules)


def logits(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def kept(options: SamplingOptions, values: npt.NDArray[np.float32]) -> list[int]:
    return np.flatnonzero(sampler(options).probabilities(values)).tolist()


def test_greedy_takes_the_first_maximum() -> None:
    assert sampler().sample(logits(1, 3, 3, 2), 0) == 1


def test_temperature_zero_is_greedy() -> None:
    assert sampler(SamplingOptions(temperature=0)).sample(logits(1, 2, 5, 2), 0) == 2


def test_penalty_acts_on_greedy_choice_once_per_distinct_token() -> None:
    draw = sampler(SamplingOptions(do_sample=False, repetition_penalty=1.5))
    values = logits(3.0, 2.5, -1.0)
    assert [draw.sample(values, frame) for frame in range(4)] == [0, 1, 0, 0]
    assert draw.history == [0, 1]
    assert draw.drawn == 4


def test_penalty_lowers_negative_scores_too() -> None:
    draw = sampler(SamplingOptions(repetition_penalty=2.0))
    draw.sample(logits(-1.0, -100.0), 0)
    expected = np.exp(logits(-2.0, -1.5))
    assert draw.probabilities(logits(-1.0, -1.5)) == pytest.approx(expected / expected.sum())


def test_a_penalty_that_makes_a_logit_infinite_is_told() -> None:
    draw = sampler(SamplingOptions(repetition_penalty=1e-6))
    values = logits(0, 3e38)
    draw.sample(values, 0)
    with pytest.raises(ValueError, match="beyond all numbers"):
        draw.sample(values, 1)
    assert draw.drawn == 1


def test_end_token_is_impossible_before_the_minimum_length() -> None:
    draw = sampler(rules=TokenRules(end_token=2, minimum_tokens=2))
    values = logits(0, 1, 9)
    assert [draw.sample(values, frame) for frame in range(3)] == [1, 1, 2]


def test_suppressed_range_spares_the_end_token() -> None:
    draw = sampler(rules=TokenRules(end_token=3, suppress=(2, 6)))
    assert draw.sample(logits(0, 1, 9, 2, 9, 9), 0) == 3


def test_top_k_keeps_ties_at_the_threshold() -> None:
    assert kept(SamplingOptions(top_k=2), logits(5, 1, 3, 3, 2)) == [0, 2, 3]


def test_top_k_beyond_the_vocabulary_keeps_everything() -> None:
    assert kept(SamplingOptions(top_k=50), logits(1, 2, 3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("top_p", "expected"), [(1.0, [0, 1, 2, 3]), (0.9, [0, 1, 2]), (0.7, [1, 2]), (0.4, [2]), (0.0, [2])]
)
def test_top_p_keeps_the_smallest_set_that_reaches_p(top_p: float, expected: list[int]) -> None:
    assert kept(SamplingOptions(top_p=top_p), np.log(logits(0.125, 0.25, 0.5625, 0.0625))) == expected


def test_top_p_drops_the_lower_id_of_equal_scores_first() -> None:
    assert kept(SamplingOptions(top_p=0.3), logits(0, 0, 0, 0)) == [2, 3]


def test_impossible_tokens_are_never_drawn() -> None:
    values = logits(-np.inf, 0, -np.inf, 0, -np.inf)
    draw = sampler(SamplingOptions())
    assert {draw.sample(values, frame) for frame in range(200)} == {1, 3}


def test_a_uniform_of_one_ends_at_the_last_possible_token() -> None:
    """Subsequence 17367479 of seed 42 draws the word 0xFFFFFF87, which rounds to exactly 1."""
    draws = Draws(seed=42, codebooks=1)
    assert draws.uniform(17367479, 0) == 1
    draw = TokenSampler(SamplingOptions(), draws)
    assert draw.sample(logits(*[0.1] * 1000, -np.inf, -np.inf), 17367479) == 999


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("options", [GREEDY, SamplingOptions(top_k=2, top_p=0.9)])
def test_damaged_logits_are_an_error_and_never_a_token(bad: float, options: SamplingOptions) -> None:
    draw = sampler(options)
    with pytest.raises(ValueError, match=r"logit 1 of 3 is (not a number|infinite)"):
        draw.sample(logits(0, bad, 1), 0)
    assert draw.drawn == 0


def test_logits_without_a_possible_token_are_an_error() -> None:
    with pytest.raises(ValueError, match="leave no token"):
        sampler().sample(logits(-np.inf, -np.inf), 0)
    with pytest.raises(ValueError, match="leave no token"):
        sampler(rules=TokenRules(suppress=(0, 2))).sample(logits(1, 2), 0)
    with pytest.raises(ValueError, match="empty"):
        sampler().sample(logits(), 0)


def test_a_tiny_temperature_does_not_overflow() -> None:
    assert kept(SamplingOptions(temperature=1e-30), logits(-1e9, 1e9, 5)) == [1]


def test_codebook_must_lie_within_the_frame() -> None:
    with pytest.raises(ValueError, match="codebook"):
        sampler().sample(logits(1, 2), 0, 16)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 1.1},
        {"top_p": -0.5},
        {"repetition_penalty": 0.0},
    ],
)
def test_options_outside_their_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="is not usable: it must be"):
        SamplingOptions(**values)  # type: ignore[arg-type]


def test_together_each_draws_what_it_draws_alone() -> None:
    chains = [
        SamplingOptions(do_sample=False),
        SamplingOptions(temperature=0.7, top_k=5),
        SamplingOptions(top_p=0.8, repetition_penalty=1.3),
    ]
    values = np.random.default_rng(1).normal(0, 2, (20, 3, 40)).astype(np.float32)
    together, apart = (
        [TokenSampler(chain, Draws(seed, 4)) for seed, chain in enumerate(chains)] for _ in range(2)
    )
    for step, rows in enumerate(values):
        frames = [step, step + 7, 2 * step]
        drawn = sample_together(together, rows, frames, codebook=2)
        alone = [one.sample(row, frame, 2) for one, row, frame in zip(apart, rows, frames, strict=True)]
        assert drawn.dtype == np.int32
        assert drawn.tolist() == alone
    assert [one.history for one in together] == [one.history for one in apart]


def test_together_a_failure_is_marked_and_forgotten() -> None:
    samplers = [TokenSampler(SamplingOptions(), Draws(seed, 1)) for seed in range(3)]
    rows = np.zeros((3, 5), np.float32)
    rows[1, 2] = np.nan
    drawn = sample_together(samplers, rows, [0, 0, 0])
    assert (drawn >= 0).tolist() == [True, False, True]
    assert [one.drawn for one in samplers] == [1, 0, 1]
    with pytest.raises(ValueError, match="is not a number"):
        samplers[1].sample(rows[1], 0)


def test_together_needs_a_row_for_each() -> None:
    samplers = [TokenSampler(SamplingOptions(), Draws(0, 1))]
    with pytest.raises(ValueError, match="as many rows"):
        sample_together(samplers, np.zeros((2, 5), np.float32), [0])
    assert len(sample_together([], np.zeros((0, 5), np.float32), [])) == 0
