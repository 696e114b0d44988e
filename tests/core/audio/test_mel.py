"""The log-mel front end against the official package and librosa's filter bank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.audio.mel import SPEAKER_MEL, MelSettings, log_mel, mel_filters
from support.data import Golden

LOG_MEL = 3e-4
"""Natural logarithm of a band: the reference computes in float32 and is stored with 16 significant bits."""


@pytest.mark.parametrize("name", ["a", "b", "silence", "short"])
def test_spectrogram(golden: Callable[[str], Golden], name: str) -> None:
    case = golden("speaker_0.6B-Base")
    found = log_mel(case[f"{name}_wav"])
    assert found.dtype == np.float32
    assert found.T.shape == case[f"{name}_mel"].shape
    assert np.abs(found.T - case[f"{name}_mel"]).max() < LOG_MEL


def test_filters(golden: Callable[[str], Golden]) -> None:
    assert np.abs(mel_filters() - golden("speaker_0.6B-Base")["mel_filters"]).max() < 1e-6


def test_every_filter_has_unit_area() -> None:
    area = mel_filters(MelSettings(window=65536)).sum(1) * 24000 / 65536
    assert np.abs(area - 1).max() < 1e-3


@pytest.mark.parametrize("samples", [385, 1280, 24000, 24001])
def test_frame_count(samples: int) -> None:
    assert log_mel(np.zeros(samples, np.float32)).shape == (SPEAKER_MEL.frames(samples), 128)


def test_too_few_samples_to_mirror() -> None:
    with pytest.raises(ValueError, match="more than 384 samples, got 384"):
        log_mel(np.zeros(384, np.float32))
