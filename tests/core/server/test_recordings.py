"""Recordings of clients: any format, no surprises."""

from __future__ import annotations

import io
import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
import soundfile

from ggtts.core.audio import wav
from ggtts.core.audio.formats import S16
from ggtts.core.audio.reference import read_recording
from ggtts.core.errors import AudioFileError
from ggtts.core.server.recordings import read_upload

RATE = 22_050


def encoded(samples: np.ndarray, container: str = "WAV", rate: int = RATE, **options: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, **options)
    return file.getvalue()


def tone(seconds: float, channels: int = 1) -> np.ndarray:
    time = np.arange(int(seconds * RATE)) / RATE
    return np.stack([0.4 * np.sin(2 * np.pi * (200 + 50 * k) * time) for k in range(channels)], axis=1)


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("WAV", "PCM_24"), ("FLAC", None), ("OGG", "VORBIS"), ("MP3", None), ("AIFF", None)],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_a_recording_is_what_the_library_reads(container: str, subtype: str | None, channels: int) -> None:
    data = encoded(tone(3.1, channels), container, subtype=subtype)
    recording = read_upload(data)
    samples, rate = read_recording(io.BytesIO(data))
    assert recording.sample_rate == rate == RATE
    np.testing.assert_array_equal(recording.samples, samples)


def test_a_wav_of_hours_is_refused_for_what_is_in_it() -> None:
    cut_off = wav.file_header(S16, RATE, RATE * 36_000) + bytes(1000)
    assert len(read_upload(cut_off).samples) == 500
    real = encoded(np.zeros(8_000 * 3_700, np.int16), rate=8_000, subtype="PCM_U8")
    with pytest.raises(AudioFileError, match="3700 s long: at most 60 s"):
        read_upload(real)


def flac_bomb(seconds: int, stated: int) -> bytes:
    """Silence packs into next to nothing; the stated number of samples is overwritten."""
    data = bytearray(encoded(np.zeros((seconds * 96_000, 8), np.int16), "FLAC", rate=96_000))
    packed = struct.unpack(">Q", data[18:26])[0] & ~((1 << 36) - 1) | stated
    data[18:26] = struct.pack(">Q", packed)
    return bytes(data)


@pytest.mark.parametrize(
    "stated", [0, 1, 96_000, 50 * 96_000, (1 << 36) - 1], ids=lambda stated: f"states {stated}"
)
def test_a_flac_bomb_is_refused_in_little_memory(stated: int) -> None:
    data = flac_bomb(70, stated)
    assert len(data) < 300_000
    tracemalloc.start()
    try:
        with suppress(AudioFileError):
            assert len(read_upload(data).samples) <= 60 * 96_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 80e6  # 60 s of one channel, twice; eight of them would be 184 MB


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        bytes(100),
        b"not audio at all",
        encoded(tone(0.5), rate=500),
        encoded(tone(0.1, 20)),
        encoded(tone(1))[:30],
    ],
    ids=["empty", "a word", "zeros", "text", "500 Hz", "20 channels", "half a header"],
)
def test_what_is_no_recording_is_refused_in_a_line(data: bytes) -> None:
    with pytest.raises(AudioFileError) as failure:
        read_upload(data)
    assert "\n" not in str(failure.value)
