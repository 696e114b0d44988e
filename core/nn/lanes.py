"""Several sequences of one length side by side: tensors [channels, time, lanes].

What looks at one position at a time takes them as one sequence, [channels, time * lanes]: fewer, larger products.

As a rule the channels of a position are neighbours in memory. Some operations of GPUs want the positions of a channel
to be neighbours instead: such tensors are views of [time * lanes, channels] with the usual order of dimensions.
"""

from __future__ import annotations

from ..engine import Tensor


def joined(x: Tensor) -> Tensor:
    """[channels, time, lanes] -> [channels, time * lanes], channels side by side."""
    channels, time, lanes, _ = x.shape
    if not x.is_contiguous and _by_time(x).is_contiguous:
        return time_first(x).transpose().contiguous()
    return x.reshape(channels, time * lanes)


def apart(x: Tensor, lanes: int) -> Tensor:
    """[channels, time * lanes] -> [channels, time, lanes]."""
    return x.reshape(x.shape[0], x.shape[1] // lanes, lanes)


def side_by_side(x: Tensor) -> Tensor:
    """The same tensor [channels, time, lanes] with the channels of a position side by side."""
    return x if x.is_contiguous else apart(joined(x), x.shape[2])


def time_first(x: Tensor) -> Tensor:
    """[channels, time, lanes] -> [time * lanes, channels], the positions of a channel side by side."""
    channels, time, lanes, _ = x.shape
    lines = _by_time(x)
    if lines.is_contiguous:
        return lines.reshape(time * lanes, channels)
    return joined(x).transpose().contiguous()


def channels_first(x: Tensor, lanes: int) -> Tensor:
    """[time * lanes, channels] -> a view [channels, time, lanes], which `time_first` undoes without a copy."""
    if lanes == 1:
        return x.transpose()
    return x.reshape(x.shape[0] // lanes, lanes, x.shape[1]).permute(1, 2, 0)


def _by_time(x: Tensor) -> Tensor:
    """[channels, time, lanes] -> a view [time, lanes, channels], or [time, channels] of one lane."""
    return x.transpose() if x.shape[2] == 1 else x.permute(2, 0, 1)
