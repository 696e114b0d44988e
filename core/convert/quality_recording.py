"""A recording that is the same everywhere and asks much the same of an encoder as speech does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SECONDS = 3.0
_FORMANTS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
"""Of the vowels a, i, u, e, o, in Hz (Peterson and Barney, "Control methods used in a study of the vowels", 1952)."""

_SYLLABLE = 0.24
_HISS = 0.06


def babble(sample_rate: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    """Return float32 samples [n] of syllables: a hiss, then a vowel on a voice that rises and falls."""
    count = int(seconds * sample_rate)
    time = np.arange(count) / sample_rate
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time) - 6 * time
    phase = 2 * np.pi * np.cumsum(pitch) / sample_rate
    syllable = (time / _SYLLABLE).astype(int)
    within = time % _SYLLABLE
    samples = np.zeros(count)
    formants = np.array(_FORMANTS, float)[syllable % len(_FORMANTS)]
    for harmonic in range(1, 40):
        frequency = harmonic * pitch
        gain = sum(1 / (1 + ((frequency - formants[:, i]) / 90) ** 2) / (i + 1) for i in range(3))
        samples += np.where(frequency < 0.45 * sample_rate, gain, 0) * np.sin(harmonic * phase)
    hiss = np.diff(np.random.default_rng(5).standard_normal(count), prepend=0.0)
    envelope = np.clip((_SYLLABLE - within) / 0.05, 0, 1) * np.clip((within - 0.5 * _HISS) / 0.03, 0, 1)
    voiced = samples * envelope + 0.3 * hiss * np.clip((_HISS - within) / _HISS, 0, 1)
    recording: NDArray[np.float32] = (0.5 * voiced / np.abs(voiced).max()).astype(np.float32)
    return recording
