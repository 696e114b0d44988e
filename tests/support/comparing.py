"""How far apart two arrays are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .device import ON_CPU
from .tolerances import WAVEFORM


def deviation(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Largest difference of two arrays of one shape, relative to the largest magnitude of the expected one."""
    a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert a.shape == b.shape, f"shape {a.shape} where {b.shape} is expected"
    if not a.size:
        return 0.0
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-30))


def same(actual: npt.ArrayLike, expected: npt.ArrayLike) -> bool:
    """Tell whether two ways to compute something gave the same.

    The CPU computes a sample in one way whatever is beside it: there every bit counts. Other devices choose their
    kernels by the number of positions, and samples may differ by what a waveform may.
    """
    a, b = np.asarray(actual), np.asarray(expected)
    if ON_CPU or a.dtype.kind != "f" or a.shape != b.shape:
        return bool(np.array_equal(a, b))
    return bool(np.abs(a - b).max(initial=0.0) <= WAVEFORM)
