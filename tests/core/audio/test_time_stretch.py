"""Faster and slower speech at the same pitch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ggtts.core.audio.time_stretch import Stretcher, stretch

RATE = 24_000
RATIOS = [0.6, 0.9, 1.1, 1.37, 2.0]


def voice(seconds: float, pitch: float = 130.0) -> NDArray[np.float32]:
    """A harmonic tone whose pitch glides and whose loudness pulses three times a second."""
    time = np.arange(round(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(pitch + 15 * np.sin(2 * np.pi * 1.5 * time)) / RATE
    tone = sum(np.sin(k * phase) / k for k in range(1, 20)) * (0.55 + 0.45 * np.sin(2 * np.pi * 3 * time))
    return (0.2 * tone).astype(np.float32)


def envelope(samples: NDArray[np.float32], points: int = 40) -> NDArray[np.float64]:
    """Loudness over time, in `points` steps whatever the length."""
    return np.array([np.sqrt(np.mean(part**2)) for part in np.array_split(samples, points)])


@given(st.integers(0, 3000), st.floats(0.3, 3.0))
@settings(max_examples=40, deadline=None)
def test_the_length_is_exact(length: int, ratio: float) -> None:
    samples = np.sin(0.1 * np.arange(length)).astype(np.float32)
    result = stretch(samples, ratio, RATE)
    assert result.shape == (round(length / ratio),)
    assert result.dtype == np.float32
    assert np.abs(result).max(initial=0) <= 1.5


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("frequency", [110.0, 440.0, 3000.0])
def test_a_tone_stays_the_same_tone(ratio: float, frequency: float) -> None:
    tone = np.sin(2 * np.pi * frequency * np.arange(RATE) / RATE).astype(np.float32)
    result = stretch(tone, ratio, RATE)[1000:-1000]
    spectrum = np.abs(np.fft.rfft(result * np.hanning(len(result)))) ** 2
    frequencies = np.fft.rfftfreq(len(result), 1 / RATE)
    assert frequencies[np.argmax(spectrum)] == pytest.approx(frequency, rel=0.01)
    assert spectrum[np.abs(frequencies - frequency) < 20].sum() > 0.99 * spectrum.sum()


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_voice_keeps_its_loudness_over_time_and_gets_no_clicks(ratio: float) -> None:
    samples = voice(2.0)
    result = stretch(samples, ratio, RATE)
    np.testing.assert_allclose(envelope(result), envelope(samples), atol=0.03)
    assert np.abs(np.diff(result)).max() <= 1.05 * np.abs(np.diff(samples)).max()


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_spectrum_of_a_voice_stays(ratio: float) -> None:
    def bands(samples: NDArray[np.float32]) -> NDArray[np.float64]:
        parts = np.lib.stride_tricks.sliding_window_view(samples, 1024)[::256] * np.hanning(1024)
        power = (np.abs(np.fft.rfft(parts)) ** 2).mean(axis=0)
        return np.array([10 * np.log10(band.sum()) for band in np.array_split(power[:128], 8)])

    samples = voice(1.5)
    np.testing.assert_allclose(bands(stretch(samples, ratio, RATE)), bands(samples), atol=1.5)


def test_a_ratio_of_one_changes_nothing_and_silence_stays_silent() -> None:
    samples = voice(0.3)
    np.testing.assert_array_equal(stretch(samples, 1.0, RATE), samples)
    assert not stretch(np.zeros(5000, np.float32), 1.5, RATE).any()


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_is_a_positive_number(ratio: float) -> None:
    with pytest.raises(ValueError, match="times as fast"):
        stretch(np.zeros(10, np.float32), ratio, RATE)


@given(st.lists(st.integers(0, 3000), max_size=8), st.floats(0.25, 4.0))
@settings(max_examples=40, deadline=None)
def test_however_it_arrives_it_comes_out_the_same(sizes: list[int], ratio: float) -> None:
    samples = voice(1.0)[: sum(sizes)]
    stretcher, parts, start = Stretcher(ratio, RATE), [], 0
    for size in sizes:
        parts.append(stretcher.push(samples[start : start + size]))
        start += size
    np.testing.assert_array_equal(np.concatenate([*parts, stretcher.finish()]), stretch(samples, ratio, RATE))
