"""Speech at given times: one timeline, written as it goes, in memory that does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .time_stretch import stretch

FloatArray = NDArray[np.float32]

PAUSE_SECONDS = 0.1
"""Left between speech that borrows from a gap and the speech behind the gap."""
MOST_STRETCH = 2.0
"""Speech is made at most so many times faster; beyond that nobody can follow."""
_EDGE_SECONDS = 0.005
_CUT_SECONDS = 0.03
"""Fades of speech as it is, and of speech that is cut off in the middle."""
_BLOCK = 1 << 16


class Writer(Protocol):
    """Takes samples one behind the other, as an audio sink does."""

    def write(self, samples: FloatArray) -> None:
        """Append samples [n]."""


@dataclass(frozen=True)
class Slot:
    """When speech should be heard, in seconds.

    Attributes:
        start, end: what is asked for.
        limit: how far it may go on into the gap behind it; infinite for the last one.
    """

    start: float
    end: float
    limit: float

    @property
    def seconds(self) -> float:
        """The length that is asked for."""
        return self.end - self.start

    @property
    def room(self) -> float:
        """The length that there is, the gap included."""
        return self.limit - self.start

    def room_samples(self, sample_rate: int) -> int | None:
        """Return how many samples have room; None is any number."""
        return (
            None if self.limit == inf else round(self.limit * sample_rate) - round(self.start * sample_rate)
        )


def slots_of(times: Iterable[tuple[float, float]]) -> list[Slot]:
    """Return a slot for each (start, end), which are in order and do not overlap.

    Raises:
        ValueError: they overlap, or one ends before it starts.
    """
    pairs = list(times)
    for start, end in pairs:
        if not 0 <= start <= end:
            raise ValueError(f"no slot lies between {start} and {end} s")
    for (_, end), (start, _) in pairwise(pairs):
        if start < end:
            raise ValueError(f"the slot that starts at {start} s overlaps the one that ends at {end} s")
    following = [start for start, _ in pairs[1:]] + [inf]
    return [
        Slot(start, end, max(end, limit - PAUSE_SECONDS))
        for (start, end), limit in zip(pairs, following, strict=True)
    ]


@dataclass(frozen=True)
class Fitted:
    """Speech that keeps to its slot.

    Attributes:
        samples: float32 [n], not longer than the room of the slot.
        stretched: how many times faster it was made; 1 is not at all.
        cut: seconds that did not fit and are lost.
    """

    samples: FloatArray
    stretched: float = 1.0
    cut: float = 0.0


def fit(samples: FloatArray, slot: Slot, sample_rate: int, *, may_stretch: bool) -> Fitted:
    """Return speech [n] made to fit the room of a slot: as it is, or faster if it may be, and cut if all else fails.

    Its ends are faded so that nothing clicks.
    """
    limit = slot.room_samples(sample_rate)
    room = len(samples) if limit is None else limit
    stretched = 1.0
    if may_stretch and room and len(samples) > room:
        stretched = min(len(samples) / room, MOST_STRETCH)
        samples = stretch(samples, stretched, sample_rate)
    over = max(0, len(samples) - room)
    # A sample or two more are a matter of rounding, nobody misses them.
    lost = over / sample_rate if over > _EDGE_SECONDS * sample_rate else 0.0
    kept = _faded(samples[:room], sample_rate, _CUT_SECONDS if lost else _EDGE_SECONDS)
    return Fitted(kept, stretched, lost)


class Timeline:
    """Puts speech at its times. Everything between is silence; what is written is never changed again."""

    def __init__(self, writer: Writer, sample_rate: int) -> None:
        self._writer = writer
        self._rate = sample_rate
        self._position = 0

    @property
    def samples(self) -> int:
        """How many were written so far."""
        return self._position

    @property
    def seconds(self) -> float:
        """Where it has come to."""
        return self._position / self._rate

    def place(self, start: float, samples: FloatArray) -> None:
        """Write speech [n] so that it starts at that second.

        Raises:
            ValueError: other speech is there already.
        """
        begin = round(start * self._rate)
        if begin < self._position:
            raise ValueError(f"at {start} s there is speech already, up to {self.seconds} s")
        self._silence(begin)
        for at in range(0, len(samples), _BLOCK):
            self._writer.write(samples[at : at + _BLOCK])
        self._position += len(samples)

    def finish(self, end: float) -> None:
        """Fill up with silence to that second, unless speech goes on for longer."""
        self._silence(round(end * self._rate))

    def _silence(self, end: int) -> None:
        while self._position < end:
            count = min(_BLOCK, end - self._position)
            self._writer.write(np.zeros(count, np.float32))
            self._position += count


def _faded(samples: FloatArray, sample_rate: int, end_seconds: float) -> FloatArray:
    """Fade both ends along a raised cosine; ends of short speech share what there is."""
    result: FloatArray = samples.copy()
    half = len(result) // 2
    begin = _ramp(min(half, round(_EDGE_SECONDS * sample_rate)))
    end = _ramp(min(half, round(end_seconds * sample_rate)))
    result[: len(begin)] *= begin
    result[len(result) - len(end) :] *= end[::-1]
    return result


def _ramp(count: int) -> FloatArray:
    """Return `count` values that rise from just above 0 to just below 1."""
    steps = (np.arange(count) + 0.5) / max(count, 1)
    ramp: FloatArray = (0.5 - 0.5 * np.cos(np.pi * steps)).astype(np.float32)
    return ramp
