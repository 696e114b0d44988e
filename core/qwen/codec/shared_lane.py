"""Streams of the codec that are decoded in turn by one thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...closing import Closing
from .decoder import CodecDecoder, DecoderStream
from .lanes import DecoderSnapshot


class SharedLane:
    """Lets many streams share the programs of one, which take most of the memory: 300 MB with a codec of full size.

    What was decoded last stays where it is; only when another stream has its turn, the one's memory is put aside and
    the other's is brought in, some 20 MB each. Not for several threads.
    """

    def __init__(self, decoder: CodecDecoder) -> None:
        self._decoder = decoder
        self._running: DecoderStream | None = None
        self._resident: VisitingStream | None = None

    def stream(self, snapshot: DecoderSnapshot | None = None) -> VisitingStream:
        """Begin a stream, at silence or where the snapshot of another stream was taken."""
        return VisitingStream(self, snapshot)

    def enter(self, stream: VisitingStream) -> DecoderStream:
        """Give a stream its turn; return what decodes for it."""
        if self._running is not None and self._resident is stream:
            return self._running
        if self._running is not None and self._resident is not None:
            self._resident.put_aside(self._running)
        self.clear()
        self._running, self._resident = self._decoder.stream(stream.aside), stream
        return self._running

    def leave(self, stream: VisitingStream) -> None:
        """Forget a stream."""
        if self._resident is stream:
            self._resident = None

    def clear(self) -> None:
        """Give the lane back to the decoder."""
        if self._running is not None:
            self._running.close()
        self._running = self._resident = None


class VisitingStream(Closing):
    """One of the streams of a shared lane; it is used like a `DecoderStream`.

    Attributes:
        aside: where it stands, while another one has its turn.
    """

    def __init__(self, lane: SharedLane, snapshot: DecoderSnapshot | None) -> None:
        self.aside = snapshot
        self._lane = lane
        self._own: DecoderSnapshot | None = None

    def __call__(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples float32 [m * 1920] of the next codes [m, 16].

        Raises:
            ValueError: the codes have another shape or lie outside the codebooks.
        """
        return self._lane.enter(self)(codes)

    def prime(self, codes: NDArray[np.integer]) -> None:
        """Let the stream go on behind a reference, codes [m, 16], whose own samples nobody wants."""
        self(codes)

    def snapshot(self) -> DecoderSnapshot:
        """Copy where the stream stands, so that other streams may go on from there."""
        return self._lane.enter(self).snapshot()

    def put_aside(self, running: DecoderStream) -> None:
        """Remember where the stream stands."""
        # Not over the snapshot that it began with: others begin there too.
        self.aside = self._own = running.snapshot(into=self._own)

    def close(self) -> None:
        """End the stream. Closing twice is harmless."""
        self._lane.leave(self)
        self.aside = self._own = None


AnyDecoderStream = DecoderStream | VisitingStream
