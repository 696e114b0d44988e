"""How far apart two arrays are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def deviation(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Largest difference of two arrays of one shape, relative to the largest magnitude of the expected one."""
    a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert a.shape == b.shape, f"shape {a.shape} where {b.shape} is expected"
    if not a.size:
        return 0.0
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-30))
