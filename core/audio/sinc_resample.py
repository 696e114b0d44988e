"""Resampling with a windowed sinc, as torchaudio.functional.resample does by default (OmniVoice's resampler).

J. O. Smith, "Digital Audio Resampling Home Page", ccrma.stanford.edu/~jos/resample: each output sample is the input
weighted by a sinc around its place, cut off by a Hann window six zero crossings wide. Rates that are a ratio of small
integers repeat a few phases; only the taps inside the window are kept of each, so odd ratios cost no more than others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

_ZERO_CROSSINGS = 6
_ROLLOFF = 0.99
_OUTPUTS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class _Phases:
    """The filters of one ratio: output `block * outputs + phase` starts at input `block * inputs + starts[phase]`."""

    inputs: int
    outputs: int
    starts: NDArray[np.int64]
    """[outputs]; may be negative."""
    taps: FloatArray
    """[outputs, width]"""


def sinc_resample(samples: FloatArray, rate: int, wanted: int) -> FloatArray:
    """Resample mono samples [n] from `rate` to `wanted` Hz, to ceil(n * wanted / rate) samples.

    Raises:
        ValueError: a rate is not positive.
    """
    if rate < 1 or wanted < 1:
        raise ValueError(f"sample rates must be positive, not {rate} and {wanted}")
    if rate == wanted:
        return samples
    phases = _phases(rate // math.gcd(rate, wanted), wanted // math.gcd(rate, wanted))
    length = -(-len(samples) * phases.outputs // phases.inputs)
    if not length:
        return samples[:0]
    blocks = -(-length // phases.outputs)
    width = phases.taps.shape[1]
    before = max(0, -int(phases.starts.min()))
    reach = (blocks - 1) * phases.inputs + int(phases.starts.max()) + width
    padded = np.pad(samples.astype(np.float32, copy=False), (before, max(0, reach - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    result = np.empty((blocks, phases.outputs), np.float32)
    at_once = max(1, _OUTPUTS_AT_ONCE // phases.outputs)
    for first in range(0, blocks, at_once):
        block = np.arange(first, min(first + at_once, blocks))
        places = block[:, None] * phases.inputs + phases.starts + before
        result[block] = np.einsum("bpw,pw->bp", windows[places], phases.taps)
    return result.reshape(-1)[:length]


@lru_cache(maxsize=8)
def _phases(inputs: int, outputs: int) -> _Phases:
    """The filters for a ratio in lowest terms."""
    cutoff = _ROLLOFF * min(inputs, outputs)
    reach = math.ceil(_ZERO_CROSSINGS * inputs / cutoff)
    starts = np.floor(np.arange(outputs) * inputs / outputs).astype(np.int64) - reach
    offsets = starts[:, None] + np.arange(2 * reach + 2)
    # In single precision throughout, as the official filters are: in double they differ by 3e-6 of full scale.
    single = np.float32
    phase = np.arange(outputs, dtype=single) / single(outputs)
    time = (offsets.astype(single) / single(inputs) - phase[:, None]) * single(cutoff)
    inside = np.abs(time) < _ZERO_CROSSINGS
    window = np.cos(time * single(math.pi) / single(_ZERO_CROSSINGS) / single(2)) ** 2
    angle = time * single(math.pi)
    sinc = np.divide(np.sin(angle), angle, out=np.ones_like(angle), where=angle != 0)
    taps = np.where(inside, sinc * (window * single(cutoff / inputs)), single(0))
    return _Phases(inputs, outputs, starts, taps)
