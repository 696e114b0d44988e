"""Log-mel spectrogram as the Qwen3-TTS speaker encoder was trained on (mel_spectrogram of the official package).

Frames of 1024 samples every 256 at 24 kHz, periodic Hann window, both ends mirrored by (1024 - 256) / 2 so that the
frames are centred; magnitudes through a Slaney mel filter bank (Slaney, "Auditory Toolbox", 1998), natural logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

_LINEAR_HERTZ_PER_MEL = 200.0 / 3.0
_BREAK_HERTZ = 1000.0
_LOG_STEP = math.log(6.4) / 27.0


@dataclass(frozen=True)
class MelSettings:
    """What a log-mel spectrogram is made of; the defaults are those of the speaker encoder."""

    sample_rate: int = 24000
    window: int = 1024
    hop: int = 256
    bands: int = 128
    lowest: float = 0.0
    highest: float = 12000.0
    power_floor: float = 1e-9
    """Added under the square root of the power."""
    magnitude_floor: float = 1e-5
    """The smallest band value whose logarithm is taken."""

    @property
    def margin(self) -> int:
        """Samples mirrored at each end."""
        return (self.window - self.hop) // 2

    def frames(self, samples: int) -> int:
        """How many frames a signal of this many samples has."""
        return (samples + 2 * self.margin - self.window) // self.hop + 1


SPEAKER_MEL = MelSettings()


def log_mel(samples: NDArray[np.floating], settings: MelSettings = SPEAKER_MEL) -> NDArray[np.float32]:
    """Log-mel spectrogram [frames, bands] of mono samples [n] at the settings' rate.

    Raises:
        ValueError: there are too few samples to mirror an end.
    """
    bands = magnitudes(samples, settings) @ mel_filters(settings).T
    result: NDArray[np.float32] = np.log(np.maximum(bands, settings.magnitude_floor)).astype(np.float32)
    return result


def magnitudes(samples: NDArray[np.floating], settings: MelSettings = SPEAKER_MEL) -> NDArray[np.float64]:
    """Magnitude spectrogram [frames, window // 2 + 1] of mono samples [n]; raises as `log_mel` does."""
    if len(samples) <= settings.margin:
        raise ValueError(f"a mel spectrogram needs more than {settings.margin} samples, got {len(samples)}")
    padded = np.pad(samples.astype(np.float64), settings.margin, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, settings.window)[:: settings.hop]
    spectrum = np.fft.rfft(windows * hann_window(settings.window))
    result: NDArray[np.float64] = np.sqrt(spectrum.real**2 + spectrum.imag**2 + settings.power_floor)
    return result


@cache
def mel_filters(settings: MelSettings = SPEAKER_MEL) -> NDArray[np.float64]:
    """Triangular filters [bands, window // 2 + 1], each of unit area over frequency (librosa.filters.mel, Slaney)."""
    frequencies = np.fft.rfftfreq(settings.window, 1.0 / settings.sample_rate)
    mels = np.linspace(_to_mel(settings.lowest), _to_mel(settings.highest), settings.bands + 2)
    corners = _to_hertz(mels)
    widths = np.diff(corners)
    ramps = corners[:, None] - frequencies
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    area = 2.0 / (corners[2:] - corners[:-2])
    filters = np.maximum(0.0, np.minimum(rising, falling)) * area[:, None]
    filters.flags.writeable = False
    return filters


def hann_window(length: int) -> NDArray[np.float64]:
    """Periodic Hann window [length]."""
    return 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(length) / length)


def _to_mel(hertz: float) -> float:
    """Slaney's scale: linear below 1 kHz, logarithmic above."""
    if hertz < _BREAK_HERTZ:
        return hertz / _LINEAR_HERTZ_PER_MEL
    return _BREAK_HERTZ / _LINEAR_HERTZ_PER_MEL + math.log(hertz / _BREAK_HERTZ) / _LOG_STEP


def _to_hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    break_mel = _BREAK_HERTZ / _LINEAR_HERTZ_PER_MEL
    logarithmic = _BREAK_HERTZ * np.exp(_LOG_STEP * (np.maximum(mels, break_mel) - break_mel))
    return np.where(mels < break_mel, mels * _LINEAR_HERTZ_PER_MEL, logarithmic)
