"""The resampler of OmniVoice."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.audio.sinc_resample import sinc_resample
from support.data import load_golden

GOLDEN = load_golden("omnivoice_resample")


@pytest.mark.parametrize("key", [key for key in GOLDEN.arrays if key.startswith("in_")])
def test_result_is_that_of_torchaudio(key: str) -> None:
    rate, wanted = map(int, key.split("_")[1:])
    result = sinc_resample(GOLDEN[key], rate, wanted)
    np.testing.assert_allclose(result, GOLDEN[f"out_{rate}_{wanted}"], rtol=2**-16, atol=2e-7)


@settings(deadline=None, max_examples=60)
@given(samples=st.integers(0, 300), rate=st.integers(1, 400), wanted=st.integers(1, 400))
def test_length_is_the_duration_rounded_up(samples: int, rate: int, wanted: int) -> None:
    result = sinc_resample(np.ones(samples, np.float32), rate, wanted)
    assert len(result) == math.ceil(samples * wanted / rate)
    assert result.dtype == np.float32
    assert np.isfinite(result).all()


@pytest.mark.parametrize(
    ("rate", "wanted"), [(44100, 24000), (8000, 24000), (44101, 24000), (24000, 16000), (3, 7)]
)
def test_a_tone_stays_the_same_tone(rate: int, wanted: int) -> None:
    frequency = min(rate, wanted) / 20
    tone = np.sin(2 * np.pi * frequency * np.arange(2000) / rate).astype(np.float32)
    result = sinc_resample(tone, rate, wanted)
    expected = np.sin(2 * np.pi * frequency * np.arange(len(result)) / wanted)
    inner = slice(len(result) // 10, -len(result) // 10)
    np.testing.assert_allclose(result[inner], expected[inner], atol=2e-3)


def test_equal_rates_change_nothing() -> None:
    samples = np.ones(3, np.float32)
    assert sinc_resample(samples, 24000, 24000) is samples


def test_long_signals_are_done_in_parts_that_fit_together() -> None:
    samples = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    whole = sinc_resample(samples, 44100, 24000)
    tail = sinc_resample(samples[147 * 1000 :], 44100, 24000)
    np.testing.assert_array_equal(whole[80 * 1000 + 40 :], tail[40:])


@pytest.mark.parametrize(("rate", "wanted"), [(0, 24000), (24000, -1)])
def test_rates_are_positive(rate: int, wanted: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        sinc_resample(np.ones(3, np.float32), rate, wanted)
