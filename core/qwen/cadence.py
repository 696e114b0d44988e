"""How many frames go to the codec at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

STREAM_FRAMES = 4
"""Most frames of a chunk that somebody waits for (0.32 s).

Chunks of n frames make a model that is just as fast as real time fall behind a player by n - 1 frames: here 0.24 s, and
players keep more than that before they begin to play. A model twice as fast never falls behind at all. Larger chunks
would save little: a codec of full size takes 32 ms for a frame by itself, 27 ms in fours and 25 ms in eights.
"""
CHUNK_FRAMES = 300
"""Frames that are decoded together where nobody waits (24 s)."""


@dataclass(frozen=True)
class Cadence:
    """Batches of 1, 2, 4, ... frames, up to `most`; without the ramp, of `most` from the beginning."""

    most: int
    ramp: bool = True

    def __post_init__(self) -> None:
        if self.most < 1:
            raise UsageError(f"{self.most} frames cannot be decoded at once: at least 1 is needed")

    def sizes(self) -> Iterator[int]:
        """Yield how many frames each batch has."""
        size = 1 if self.ramp else self.most
        while True:
            yield min(size, self.most)
            size = min(2 * size, self.most)

    def batches(self, frames: Iterable[NDArray[np.int32]]) -> Iterator[NDArray[np.int32]]:
        """Yield frames [codebooks] in batches [n, codebooks], the last one as large as what is left."""
        sizes = self.sizes()
        size, batch = next(sizes), []
        for frame in frames:
            batch.append(frame)
            if len(batch) == size:
                yield np.stack(batch)
                size, batch = next(sizes), []
        if batch:
            yield np.stack(batch)
