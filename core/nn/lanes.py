"""Several sequences of one length side by side: tensors [channels, time, lanes].

What looks at one position at a time takes them as one sequence, [channels, time * lanes]: fewer, larger products.
"""

from __future__ import annotations

from ..engine import Tensor


def joined(x: Tensor) -> Tensor:
    """[channels, time, lanes] -> [channels, time * lanes]."""
    channels, time, lanes, _ = x.shape
    return x if lanes == 1 else x.reshape(channels, time * lanes)


def apart(x: Tensor, lanes: int) -> Tensor:
    """[channels, time * lanes] -> [channels, time, lanes]."""
    return x if lanes == 1 else x.reshape(x.shape[0], x.shape[1] // lanes, lanes)
