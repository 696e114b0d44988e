"""Joins between pieces of speech: gaps, fades, and streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.audio.joins import Gap, Joiner

RATE = 24_000
GAP = Gap(0.2, 0.5)


def sound(seconds: float) -> np.ndarray:
    """A tone of half scale whose ends are loud."""
    return (0.5 * np.cos(np.arange(round(seconds * RATE)) * 0.3)).astype(np.float32)


def silence(seconds: float, level: float = 0.0) -> np.ndarray:
    noise = np.random.default_rng(0).uniform(-level, level, round(seconds * RATE))
    return noise.astype(np.float32)


def piece(before: float, spoken: float, after: float, level: float = 0.0) -> np.ndarray:
    return np.concatenate([silence(before, level), sound(spoken), silence(after, level)])


def joined(pieces: Sequence[np.ndarray], gap: Gap = GAP, step: int = 1920) -> np.ndarray:
    joiner, heard = Joiner(RATE), []
    for index, samples in enumerate(pieces):
        joiner.begin(gap if index + 1 < len(pieces) else None)
        heard += [joiner.feed(samples[begin : begin + step]) for begin in range(0, len(samples), step)]
        heard.append(joiner.end())
    return np.concatenate(heard)


def pauses(samples: np.ndarray) -> list[float]:
    """Lengths of the silences between sounds, in seconds."""
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    lengths = [(after - before - 1) / RATE for before, after in pairwise(loud.tolist())]
    return [length for length in lengths if length > 0.005]


def test_a_single_piece_passes_unchanged_and_at_once() -> None:
    samples = piece(1.0, 0.3, 2.0)
    joiner = Joiner(RATE)
    joiner.begin(None)
    assert (joiner.feed(samples) == samples).all()
    assert len(joiner.end()) == 0


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (0.1, 0.2, 0.3),  # neither too short nor too long: as it is
        (0.02, 0.05, 0.2),
        (0.0, 0.0, 0.2),
        (2.0, 0.01, 0.51),
        (0.1, 3.0, 0.5),
        (2.0, 3.0, 0.53),  # a little is kept before a word, which may begin softly
    ],
)
def test_the_gap(after: float, before: float, expected: float) -> None:
    result = joined([piece(0.1, 0.4, after), piece(before, 0.4, 0.1)])
    assert pauses(result) == pytest.approx([expected], abs=0.012)


def test_noise_below_the_threshold_is_silence() -> None:
    result = joined([piece(0.1, 0.4, 1.5, 0.004), piece(1.5, 0.4, 0.1, 0.004)])
    assert pauses(result) == pytest.approx([0.53], abs=0.012)


def test_pauses_inside_a_piece_stay() -> None:
    inside = np.concatenate([sound(0.3), silence(1.5), sound(0.3)])
    result = joined([inside, piece(0.3, 0.3, 0.0), inside])
    assert pauses(result) == pytest.approx([1.5, 0.3, 0.2, 1.5], abs=0.012)


def test_both_outer_ends_stay() -> None:
    result = joined([piece(1.2, 0.4, 0.3), piece(0.1, 0.4, 1.7)])
    loud = np.flatnonzero(np.abs(result) > 0.01)
    assert loud[0] / RATE == pytest.approx(1.2, abs=0.001)
    assert (len(result) - loud[-1]) / RATE == pytest.approx(1.7, abs=0.001)


def test_no_clicks() -> None:
    """Pieces that begin and end at full loudness are faded, so that no step is larger than inside the tone."""
    result = joined([sound(0.4), sound(0.4), sound(0.4)], Gap(0.1, 0.1))
    inner = result[100:-100]
    assert np.abs(np.diff(inner)).max() <= np.abs(np.diff(sound(0.4))).max() * 1.05


def test_no_gap_at_all() -> None:
    result = joined([sound(0.4), sound(0.4)], Gap(0.0, 0.0))
    assert len(result) == len(sound(0.4)) * 2


def test_silent_pieces() -> None:
    result = joined([sound(0.3), silence(2.0), sound(0.3), silence(2.0)])
    assert pauses(result) == pytest.approx([0.2], abs=0.012)
    result = joined([silence(2.0), silence(2.0)])
    assert len(result) / RATE <= 0.5


def test_empty_pieces() -> None:
    nothing = np.zeros(0, np.float32)
    assert len(joined([nothing, nothing])) == 0
    assert pauses(joined([sound(0.3), nothing, sound(0.3)])) == pytest.approx([0.2], abs=0.012)


def test_speech_is_not_held_back() -> None:
    joiner = Joiner(RATE)
    joiner.begin(GAP)
    assert len(joiner.feed(sound(0.08))) == pytest.approx(0.075 * RATE, abs=2)
    heard = sum(len(joiner.feed(silence(0.08))) for _ in range(20))
    assert heard / RATE == pytest.approx(0.5, abs=0.01), "of silence, what may stay"


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    steps=st.lists(st.integers(1, 5000), min_size=1, max_size=4),
)
def test_how_samples_arrive_makes_no_difference(seed: int, steps: list[int]) -> None:
    random = np.random.default_rng(seed)
    pieces = [piece(*random.choice([0.0, 0.004, 0.03, 0.1, 0.7], 3)) for _ in range(random.integers(1, 4))]
    whole = joined(pieces, step=1 << 30)
    for step in steps:
        assert (joined(pieces, step=step) == whole).all()
