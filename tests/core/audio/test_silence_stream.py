"""Silence removed piece by piece is silence removed from the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ggtts.core.audio.silence import SPEECH_SILENCE, SilenceRule, remove_silence
from ggtts.core.audio.silence_stream import silence_removed
from support.data import load_golden

RATE = 24_000


def signal(parts: list[tuple[float, int]], seed: int = 1) -> NDArray[np.float32]:
    """Noise of (level, samples), one behind the other; level 103 / 32768 is about the threshold."""
    noise = np.random.default_rng(seed)
    pieces = [level * noise.standard_normal(count) for level, count in parts]
    return np.concatenate([np.zeros(0), *pieces]).astype(np.float32)


def cut_at(samples: NDArray[np.float32], places: list[float]) -> list[NDArray[np.float32]]:
    return np.split(samples, sorted(round(place * len(samples)) for place in places))


LEVELS = st.sampled_from([0.0, 0.0, 0.001, 0.0031, 0.0032, 0.01, 0.1, 0.5, 1.2])
PARTS = st.lists(st.tuples(LEVELS, st.integers(0, 40_000)), max_size=7)


@given(
    PARTS,
    st.lists(st.floats(0, 1), max_size=6),
    st.sampled_from([SPEECH_SILENCE, SilenceRule(200, 100, 200)]),
)
@settings(max_examples=100, deadline=None)
def test_any_pieces_give_the_samples_of_the_whole(
    parts: list[tuple[float, int]], places: list[float], rule: SilenceRule
) -> None:
    samples = signal(parts)
    pieces = list(silence_removed(cut_at(samples, places), RATE, rule))
    np.testing.assert_array_equal(np.concatenate(pieces), remove_silence(samples, RATE, rule))


@pytest.mark.parametrize("name", ["gaps", "voice", "zeros", "loud", "short", "tail"])
def test_the_signals_of_the_official_package(name: str) -> None:
    samples = load_golden("omnivoice_audio")[f"{name}_in"]
    whole = remove_silence(samples, RATE, SPEECH_SILENCE)
    for places in ([], [0.5], list(np.linspace(0, 1, 23))):
        pieces = list(silence_removed(cut_at(samples, places), RATE, SPEECH_SILENCE))
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_speech_is_handed_on_at_once_and_long_silence_is_not_collected() -> None:
    def pieces() -> object:
        yield signal([(0.1, RATE)])
        assert sum(map(len, heard)) > 0.9 * RATE
        for _ in range(100):
            yield signal([(0.0, RATE)])
        yield signal([(0.1, RATE)])

    heard: list[NDArray[np.float32]] = []
    for piece in silence_removed(pieces(), RATE, SPEECH_SILENCE):  # type: ignore[arg-type]
        heard.append(piece)
    assert sum(map(len, heard)) == pytest.approx(3 * RATE, abs=0.03 * RATE)


def test_a_rate_without_whole_milliseconds_is_worked_on_at_the_end() -> None:
    samples = signal([(0.1, 10_000), (0.0, 50_000), (0.1, 10_000)])
    pieces = list(silence_removed(cut_at(samples, [0.3, 0.6]), 22_050, SPEECH_SILENCE))
    np.testing.assert_array_equal(np.concatenate(pieces), remove_silence(samples, 22_050, SPEECH_SILENCE))
