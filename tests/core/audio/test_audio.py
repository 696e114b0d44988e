"""Audio as an object: its length, and files of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.audio.audio import Audio
from ggtts.core.errors import OutputError, UsageError


@pytest.fixture
def audio() -> Audio:
    return Audio((0.5 * np.sin(np.arange(12_000) / 20)).astype(np.float32), 24_000)


@pytest.mark.parametrize(
    ("name", "audio_format", "tolerance"),
    [("a.wav", None, 4e-5), ("b.flac", None, 4e-5), ("c.wav", "wav32", 0)],
)
def test_save(audio: Audio, tmp_path: Path, name: str, audio_format: str | None, tolerance: float) -> None:
    assert audio.seconds == 0.5
    audio.save(tmp_path / name, audio_format)
    samples, rate = soundfile.read(tmp_path / name, dtype="float32")
    assert rate == 24_000
    np.testing.assert_allclose(samples, audio.samples, atol=tolerance)


def test_what_cannot_be_saved(audio: Audio, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names none"):
        audio.save("-")
    with pytest.raises(UsageError):
        audio.save(tmp_path / "a.xyz")
    with pytest.raises(OutputError):
        audio.save(tmp_path / "missing" / "a.wav")
    assert not list(tmp_path.iterdir())
