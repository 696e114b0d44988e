"""Preparing a reference recording, step by step against the official package."""

import logging
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.audio.levels import raise_quiet
from ggtts.core.errors import AudioFileError
from ggtts.core.omnivoice.reference import load_reference, prepare_reference, prepare_transcript
from support.data import DATA, load_golden

RATE, HOP = 24000, 960
FILES = ("ref_24k.wav", "ref_quiet_16k.flac", "ref_gaps_stereo_44k1.flac")
INT16_STEP = 1 / 32768


def noise(seconds: float, level: float = 0.2) -> np.ndarray:
    return (level * np.random.default_rng(1).standard_normal(round(seconds * RATE))).astype(np.float32)


@pytest.mark.parametrize("file", FILES)
def test_every_step_is_that_of_the_official_package(file: str) -> None:
    golden = load_golden(f"omnivoice_prompt_{Path(file).stem}")
    loaded = load_reference(DATA / "golden" / "audio" / file, RATE)
    start = golden["wav_24k_start"]
    assert len(loaded) == golden["wav_24k_length"]
    np.testing.assert_allclose(loaded[: len(start)], start, rtol=2**-15, atol=1e-7)
    prepared = prepare_reference(loaded, RATE, HOP)
    assert prepared.rms == pytest.approx(float(golden["rms"]), rel=1e-6)
    scaled = raise_quiet(loaded, prepared.rms)
    np.testing.assert_allclose(scaled[: len(start)], golden["scaled_start"], rtol=2**-15, atol=1e-6)
    assert len(prepared.samples) == golden["clipped_len"]
    cut = golden["no_silence" if "no_silence" in golden else "no_silence_start"][: len(prepared.samples)]
    # A resampled value may lie so near to an integer that its last bit decides which one it becomes.
    difference = np.abs(prepared.samples[: len(cut)] - cut)
    assert difference.max() <= INT16_STEP
    assert np.mean(difference > 0) < 1e-3


@pytest.mark.parametrize("file", FILES)
def test_transcripts_are_those_of_the_official_package(file: str) -> None:
    meta = load_golden(f"omnivoice_prompt_{Path(file).stem}").meta
    assert prepare_transcript(meta["ref_text_in"]) == meta["ref_text"]
    assert prepare_transcript(" as it is", preprocess=False) == " as it is"


def test_samples_are_as_good_as_a_file() -> None:
    stereo = np.stack([noise(1), -0.5 * noise(1)], axis=1)
    np.testing.assert_allclose(load_reference((stereo, RATE), RATE), 0.25 * noise(1), atol=1e-7)
    assert len(load_reference((stereo, 48000), RATE)) == RATE // 2


def test_without_preprocessing_silence_stays() -> None:
    samples = np.concatenate([noise(1), np.zeros(RATE, np.float32), noise(1)])
    assert len(prepare_reference(samples, RATE, HOP).samples) == 2.4 * RATE
    kept = prepare_reference(samples, RATE, HOP, cut_silence=False)
    np.testing.assert_array_equal(kept.samples, samples)


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(AudioFileError, match=r"speech in it.*without preprocessing"):
        prepare_reference(np.zeros(RATE, np.float32), RATE, HOP, name="x.wav")
    with pytest.raises(AudioFileError, match=r"x\.wav: 0\.010 s"):
        prepare_reference(noise(0.01), RATE, HOP, name="x.wav")


def test_a_long_reference_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        prepare_reference(noise(21), RATE, HOP, name="x.wav")
    assert "x.wav is 21.0 s long" in caplog.text
