"""Reference recordings: reading, averaging, resampling, and what is refused."""

from __future__ import annotations

import io
import logging
import os
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.audio.reference import ReferenceLimits, read_reference, resample, usable_samples
from ggtts.core.errors import AudioFileError
from support.data import Golden

RATES = [8000, 11025, 16000, 22050, 32000, 44100, 48000]
RATE = 24000


def tone(seconds: float, rate: int, pitch: float = 220.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize("rate", RATES)
def test_resampling_is_that_of_librosa(golden: Callable[[str], Golden], rate: int) -> None:
    case = golden("resample")
    expected = case[f"out_{rate}_to_24000"]
    found = resample(case[f"in_{rate}"], rate, RATE)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 3e-5


@pytest.mark.parametrize("rate", [16000, 48000])
def test_impulses(golden: Callable[[str], Golden], rate: int) -> None:
    case = golden("resample")
    found = resample(case["impulse_16000"], rate, RATE)
    assert np.abs(found - case[f"impulse_{rate}_to_24000"]).max() < 3e-5


@pytest.mark.parametrize(
    ("case_name", "file"),
    [
        ("0.6B-Base_xvec_24k", "ref_24k"),
        ("0.6B-Base_xvec_16k_full", "ref_16k"),
        ("0.6B-Base_icl_stream_longtext", "ref_44k1_stereo"),
    ],
)
def test_recordings_of_the_official_package(
    golden: Callable[[str], Golden], data: Path, case_name: str, file: str
) -> None:
    expected = golden(case_name)["ref_wav_24k"]
    found = read_reference(data / "golden" / "audio" / f"{file}.wav", RATE)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 3e-5


@pytest.mark.parametrize(
    ("ending", "subtype"),
    [
        ("wav", "PCM_U8"),
        ("wav", "PCM_24"),
        ("wav", "PCM_32"),
        ("wav", "FLOAT"),
        ("wav", "DOUBLE"),
        ("flac", "PCM_16"),
        ("ogg", "VORBIS"),
        ("mp3", "MPEG_LAYER_III"),
    ],
)
def test_formats(tmp_path: Path, ending: str, subtype: str) -> None:
    path = tmp_path / f"voice.{ending}"
    soundfile.write(path, tone(1.0, RATE), RATE, subtype=subtype)
    found = read_reference(path, RATE)
    assert len(found) == pytest.approx(RATE, abs=2400)
    assert np.abs(found).max() == pytest.approx(0.5, abs=0.05)


def test_every_channel_counts(tmp_path: Path) -> None:
    path = tmp_path / "voice.wav"
    channels = np.stack([tone(0.5, RATE), np.zeros(RATE // 2), np.zeros(RATE // 2)], axis=1)
    soundfile.write(path, channels, RATE, subtype="FLOAT")
    assert read_reference(path, RATE) == pytest.approx(tone(0.5, RATE) / 3, abs=1e-6)


def test_a_length_that_the_header_makes_up(tmp_path: Path) -> None:
    """What is not in the file takes no memory."""
    path = tmp_path / "short.flac"
    soundfile.write(path, np.tile(tone(0.2, 96_000)[:, None], 8), 96_000, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[21] |= 0x0F  # the length in samples, 36 bits
    data[22:26] = b"\xff" * 4
    path.write_bytes(data)
    tracemalloc.start()
    with suppress(AudioFileError):
        read_reference(path, 24_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16e6


def test_an_open_file_will_do() -> None:
    file = io.BytesIO()
    soundfile.write(file, tone(0.5, RATE), RATE, format="WAV")
    file.seek(0)
    assert len(read_reference(file, RATE, name="the upload")) == RATE // 2


def test_a_long_recording_is_cut_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "voice.wav"
    soundfile.write(path, tone(3.0, 8000), 8000)
    with caplog.at_level(logging.WARNING):
        assert len(read_reference(path, RATE, limits=ReferenceLimits(longest=2.0))) == 2 * RATE
    assert "voice.wav is longer than 2 s" in caplog.text


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (tone(0.1, RATE), r"too short: 0\.100 s, at least 0\.12 s"),
        (np.zeros(0, np.float32), "too short"),
        (np.zeros(RATE, np.float32), "silent: its peak is below -80 dB"),
        (np.where(np.arange(RATE) == 70, np.nan, tone(1.0, RATE)), "NaN"),
        (np.where(np.arange(RATE) == 70, np.inf, tone(1.0, RATE)), "infinite"),
    ],
)
def test_unusable_recordings(tmp_path: Path, samples: np.ndarray, problem: str) -> None:
    path = tmp_path / "voice.wav"
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    with pytest.raises(AudioFileError, match=rf"voice\.wav.*{problem}"):
        read_reference(path, RATE)


def test_channels_that_cancel_each_other_out_are_silent(tmp_path: Path) -> None:
    path = tmp_path / "voice.wav"
    soundfile.write(path, np.stack([tone(1.0, RATE), -tone(1.0, RATE)], axis=1), RATE, subtype="FLOAT")
    with pytest.raises(AudioFileError, match=r"voice\.wav is silent"):
        read_reference(path, RATE)


@pytest.mark.parametrize("rate", [10, 2_000_000_000])
def test_rates_that_no_recording_has(tmp_path: Path, rate: int) -> None:
    """Resampling the second one took all memory, and minutes."""
    soundfile.write(tmp_path / "odd.wav", np.ones(20_000, np.float32), rate)
    limits = ReferenceLimits(shortest=0.0)
    with pytest.raises(AudioFileError, match=rf"odd\.wav has {rate} samples a second: 1000 to 1000000 are"):
        read_reference(tmp_path / "odd.wav", 24_000, limits=limits)
    with pytest.raises(AudioFileError, match=f"the recording has {rate} samples a second"):
        usable_samples(np.ones(20_000, np.float32), rate, limits=limits)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("ending", ["wav", "flac", "ogg"])
def test_a_named_pipe_will_do(tmp_path: Path, ending: str) -> None:
    soundfile.write(tmp_path / f"voice.{ending}", tone(0.5, RATE), RATE)
    os.mkfifo(tmp_path / "pipe")
    data = (tmp_path / f"voice.{ending}").read_bytes()
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit((tmp_path / "pipe").write_bytes, data)
        found = read_reference(tmp_path / "pipe", RATE)
        written.result()
    assert (found == read_reference(tmp_path / f"voice.{ending}", RATE)).all()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_without_audio(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as writer:
        writer.submit((tmp_path / "pipe").write_bytes, b"this is not a recording")
        with pytest.raises(AudioFileError, match=r"cannot read .*pipe as audio: Format not recognised"):
            read_reference(tmp_path / "pipe", RATE)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"cannot read .*none\.wav as audio: No such file"):
        read_reference(tmp_path / "none.wav", RATE)
    (tmp_path / "empty.wav").write_bytes(b"")
    with pytest.raises(AudioFileError, match=r"empty\.wav as audio: the file is empty"):
        read_reference(tmp_path / "empty.wav", RATE)
    (tmp_path / "text.wav").write_text("this is not a recording")
    with pytest.raises(AudioFileError, match=r"text\.wav as audio: Format not recognised"):
        read_reference(tmp_path / "text.wav", RATE)
    (tmp_path / "samples.raw").write_bytes(bytes(100))
    with pytest.raises(AudioFileError, match=r"samples\.raw as audio: samples without a header do not say"):
        read_reference(tmp_path / "samples.raw", RATE)
    with pytest.raises(AudioFileError, match="cannot read the upload as audio"):
        read_reference(io.BytesIO(b"nothing"), RATE, name="the upload")


def test_samples_in_memory_are_held_to_the_same_limits(caplog: pytest.LogCaptureFixture) -> None:
    stereo = np.stack([tone(0.5, RATE), np.zeros(RATE // 2, np.float32)], axis=1)
    assert usable_samples(stereo, RATE) == pytest.approx(tone(0.5, RATE) / 2, abs=1e-7)
    integers = np.array([16384, -32768] * 3000, np.int16)
    assert usable_samples(integers, RATE)[:2].tolist() == [0.5, -1.0]
    assert len(usable_samples(tone(3.0, 8000), 8000, limits=ReferenceLimits(longest=2.0))) == 16_000
    assert "the recording is longer than 2 s" in caplog.text


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (np.zeros(0, np.float32), "take is too short"),
        (np.zeros(RATE, np.float32), "take is silent"),
        (np.full(RATE, np.nan), "take holds NaN"),
        (np.zeros((2, 2, 2), np.float32), "take cannot be audio"),
        (np.zeros(RATE, bool), "take cannot be audio: bool"),
    ],
)
def test_unusable_samples_in_memory(samples: np.ndarray, problem: str) -> None:
    with pytest.raises(AudioFileError, match=problem):
        usable_samples(samples, RATE, name="take")
