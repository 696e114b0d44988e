"""How many frames go to the codec at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..speech.stream import Account

STREAM_FRAMES = 4
"""Most frames of a chunk that somebody waits for (0.32 s).

Chunks of n frames make a model that is just as fast as real time fall behind a player by n - 1 frames: here 0.24 s, and
players keep more than that before they begin to play. A model twice as fast never falls behind at all. Larger chunks
would save little: a codec of full size takes 32 ms for a frame by itself, 27 ms in fours and 25 ms in eights.
"""
CHUNK_FRAMES = 300
"""Frames that are decoded together where nobody waits (24 s)."""


UNHEARD_FRAMES = 16
"""Most frames of a chunk of a speech in a batch (1.3 s).

A batch speaks whether or not anybody listens. While chunks wait to be read nobody waits for the next one, and the codec
is cheaper in wide batches; wider ones would gain nothing, and keep the other speeches waiting.
"""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Cadence:
    """Batches of 1, 2, 4, ... frames, up to `most`; without the ramp, of `most` from the beginning.

    While `unheard` says that nobody waits for the next batch, frames are added to it up to `most_unheard`.
    """

    most: int
    ramp: bool = True
    most_unheard: int = 0
    unheard: Callable[[], bool] = _never

    def __post_init__(self) -> None:
        if self.most < 1:
            raise UsageError(f"{self.most} frames cannot be decoded at once: at least 1 is needed")

    @classmethod
    def of_batch(cls, stream_frames: int | None, account: Account) -> Cadence:
        """Return that of a speech in a batch whose chunks have `stream_frames` at most, None for the usual rule."""
        if stream_frames is None:
            return cls(STREAM_FRAMES, True, UNHEARD_FRAMES, lambda: account.unheard > 0)
        return cls(min(stream_frames, UNHEARD_FRAMES))

    def sizes(self) -> Iterator[int]:
        """Yield how many frames each batch has."""
        size = 1 if self.ramp else self.most
        while True:
            yield min(size, self.most)
            size = min(2 * size, self.most)


class Gathering:
    """Frames [codebooks] on their way into batches [n, codebooks]."""

    def __init__(self, cadence: Cadence) -> None:
        self._cadence = cadence
        self._sizes = cadence.sizes()
        self._size = next(self._sizes)
        self._frames: list[NDArray[np.int32]] = []

    def add(self, frame: NDArray[np.int32]) -> NDArray[np.int32] | None:
        """Take a frame; return the batch that it completes."""
        frames, cadence = self._frames, self._cadence
        frames.append(frame)
        if len(frames) < self._size or (len(frames) < cadence.most_unheard and cadence.unheard()):
            return None
        self._size = next(self._sizes)
        return self.rest()

    def rest(self) -> NDArray[np.int32] | None:
        """Return the frames that are left, if any."""
        if not self._frames:
            return None
        batch, self._frames = np.stack(self._frames), []
        return batch
