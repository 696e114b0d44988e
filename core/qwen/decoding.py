"""The frames of a piece of speech on their way through the codec."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ..speech.timings import Stopwatch
from .cadence import Cadence, Gathering
from .codec_lines import CodecLine, Done, Handed

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]

MOST_AHEAD = 32
"""Frames that a codec beside generation may be behind (2.6 s): a slower one slows generation down."""


class Decoding:
    """Gathers frames into batches, hands these over, and gives their samples in order.

    Where the codec works beside, the samples of a batch are due when they are there, or when too many frames wait; but
    those of the first batch of a ramp at once: somebody waits for them. Where it works apart, a batch is due as soon as
    it is handed over, and has its samples later; only on a CPU the first batch has its samples before the next frame
    is made, which would take threads from the codec.

    Attributes:
        ended: there are no more frames.
    """

    def __init__(self, line: CodecLine, cadence: Cadence, stopwatch: Stopwatch, *, apart: bool) -> None:
        """`apart`: whoever hears the samples waits for them."""
        self._line = line
        self._apart = apart
        self._passed_on: deque[tuple[int, Handed]] = deque()
        self._gathering = Gathering(cadence)
        self._stopwatch = stopwatch
        self._under_way: deque[tuple[Codes, Handed]] = deque()
        self._ahead = 0
        self._awaited = cadence.ramp
        self.ended = False

    def add(self, frame: Codes) -> None:
        """Take the codes [codebooks] of a frame."""
        batch = self._gathering.add(frame)
        if batch is not None:
            self._hand_over(batch)

    def end(self) -> None:
        """Take note that there are no more frames."""
        self.ended = self._awaited = True
        batch = self._gathering.rest()
        if batch is not None:
            self._hand_over(batch)

    @property
    def due(self) -> bool:
        """Whether the next samples are to be taken before more frames are made."""
        under_way = self._under_way
        if not under_way:
            return False
        at_once = self._awaited or self._apart or not self._line.beside
        return at_once or self._ahead > MOST_AHEAD or under_way[0][1].settled

    async def next(self) -> tuple[Codes, Handed]:
        """Return the codes [n, codebooks] of the next batch and its samples: they are there, unless made apart."""
        codes, handed = self._under_way.popleft()
        if self._apart:
            self._passed_on.append((len(codes), handed))
            await self._catch_up(0 if self._awaited and self._line.shares_threads else MOST_AHEAD)
            self._awaited = False
            return codes, handed
        with self._stopwatch.measure("codec"):
            samples = await handed
        self._ahead -= len(codes)
        self._awaited = self._awaited and bool(self._under_way)
        return codes, Done(samples)

    async def finish(self) -> None:
        """Wait until all samples are there."""
        await self._catch_up(0)

    async def _catch_up(self, most: int) -> None:
        """Wait until the samples of no more than so many frames are on their way to whoever hears them."""
        passed_on = self._passed_on
        while passed_on and (self._ahead > most or passed_on[0][1].settled):
            frames, handed = passed_on.popleft()
            with self._stopwatch.measure("codec"):
                await handed.made()
            self._ahead -= frames

    def _hand_over(self, codes: Codes) -> None:
        with self._stopwatch.measure("codec"):
            handed = self._line.hand_over(codes, awaited=self._awaited)
        self._under_way.append((codes, handed))
        self._ahead += len(codes)
