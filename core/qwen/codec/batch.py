"""Streams of the codec whose pieces are decoded together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .decoder import CodecDecoder, DecoderSnapshot
from .shared_lane import SharedLane, VisitingStream

BatchStream = VisitingStream


class CodecBatch:
    """Any number of streams that come and go, up to `capacity` of which are decoded at once.

    What a stream is decoded to does not depend on the others, to the last bit on the CPU. Not for several threads.
    """

    def __init__(self, decoder: CodecDecoder, capacity: int) -> None:
        """`capacity` is how many streams go together at most, as a rule."""
        self.decoder = decoder
        self.capacity = capacity
        self._lane = SharedLane(decoder)

    def stream(self, snapshot: DecoderSnapshot | None = None) -> VisitingStream:
        """Begin a stream, at silence or where the snapshot of another stream was taken. Nothing is computed yet."""
        return self._lane.stream(snapshot)

    def decode(
        self, streams: Sequence[VisitingStream], codes: Sequence[NDArray[np.integer]]
    ) -> list[NDArray[np.float32] | Exception]:
        """Samples float32 [m * 1920] of the next codes [m, 16] of some streams, no stream twice, in their order.

        `m` may differ, and be 0. Where one alone fails, as of codes of another shape, its place has the exception.

        Raises:
            Exception: nothing could be decoded.
        """
        return [_decoded(*pair) for pair in zip(streams, codes, strict=True)]

    def clear(self) -> None:
        """Let go of memory and programs, when no stream goes on."""
        self._lane.clear()


def _decoded(stream: VisitingStream, codes: NDArray[np.integer]) -> NDArray[np.float32] | Exception:
    try:
        return stream(codes)
    except Exception as error:
        return error
