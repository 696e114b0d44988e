"""Philox4x32-10 against the published vectors and those of the interoperable program."""

import numpy as np
import pytest

from ggtts.core.errors import UsageError
from ggtts.core.sampling import Draws, philox, resolve_seed

# Seed 42: subsequence, first word, uniform.
SEED_42 = [
    (0, 0x9CEAF053, 0.6129598618),
    (1, 0x02933769, 0.0100588445),
    (2, 0x65FE70A6, 0.3984136879),
    (3, 0x0A51A6B2, 0.0403083973),
    (4, 0x28011911, 0.1562667489),
    (5, 0x7B835ADF, 0.4824730754),
    (6, 0xBC7AB43E, 0.7362473011),
    (7, 0x67EE6F2C, 0.4059819579),
    (8, 0x84D69B0C, 0.5188996196),
    (15, 0x1517821C, 0.0823899582),
    (16, 0xC630A346, 0.7741796374),
]


@pytest.mark.parametrize(("subsequence", "word", "uniform"), SEED_42)
def test_first_word_and_uniform_of_seed_42(subsequence: int, word: int, uniform: float) -> None:
    assert philox.words(42, subsequence)[0] == word
    assert philox.uniform(42, subsequence) == pytest.approx(uniform, abs=1e-9)


def test_zero_counter_and_key_give_the_published_block() -> None:
    """The known-answer vector of Random123 (kat_vectors, philox4x32 10, all zero)."""
    assert philox.words(0, 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


def test_high_words_of_seed_and_subsequence_count() -> None:
    low = philox.words(1, 1)
    assert philox.words(1 + 2**32, 1) != low
    assert philox.words(1, 1 + 2**32) != low


def test_uniform_is_float32_arithmetic_on_the_first_word() -> None:
    for subsequence in range(200):
        word = np.float32(philox.words(7, subsequence)[0])
        expected = (word + np.float32(0.5)) * np.float32(2**-32)
        assert philox.uniform(7, subsequence) == float(expected)


def test_uniforms_fill_the_unit_interval_evenly() -> None:
    draws = np.array([philox.uniform(3, subsequence) for subsequence in range(20000)])
    assert draws.min() > 0
    assert draws.max() <= 1
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(2000)


def test_draws_are_numbered_by_frame_and_codebook() -> None:
    draws = Draws(seed=42, codebooks=16)
    assert draws.subsequence(0, 15) == 15
    assert draws.subsequence(1, 0) == 16
    assert draws.uniform(1, 0) == philox.uniform(42, 16)


def test_a_given_seed_is_kept_and_a_missing_one_is_drawn_anew() -> None:
    assert resolve_seed(0) == 0
    assert resolve_seed(2**64 - 1) == 2**64 - 1
    drawn = {resolve_seed(None) for _ in range(8)} | {resolve_seed(-1) for _ in range(8)}
    assert len(drawn) == 16
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_a_seed_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(UsageError, match=r"below 2\^64"):
        resolve_seed(2**64)
