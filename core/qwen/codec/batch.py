"""Streams of the codec whose pieces are decoded together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ...closing import Closing
from ...engine import Engine
from ...errors import EngineError
from .decoder import CodecDecoder
from .lanes import DecoderLanes, DecoderSnapshot

FloatArray = NDArray[np.float32]
Codes = NDArray[np.integer]

FRAMES_ON_CPU = 16
"""Frames of all streams in one run, at most, on a CPU: activations stay in its caches."""

FRAMES_ELSEWHERE = 64
"""The same on other devices: beyond it a run takes longer and not less for each frame, and intermediate results more
memory (about 10 MB a frame with a codec of full size)."""

SMALL_RUN = 16
"""Up to so many frames, a run takes about as long on such a device whether some of its lanes are idle or not."""


class CodecBatch:
    """Any number of streams that come and go, up to `capacity` of which are decoded at once.

    What a stream is decoded to does not depend on the others, to the last bit on the CPU. Not for several threads.
    """

    def __init__(self, decoder: CodecDecoder, capacity: int) -> None:
        """`capacity` is how many streams go together at most, as a rule."""
        self.decoder = decoder
        self.capacity = capacity
        self._most_frames = most_frames(decoder.engine)
        self._residents: list[BatchStream | None] = []  # by lane
        self._lanes: DecoderLanes | None = None

    def stream(self, snapshot: DecoderSnapshot | None = None) -> BatchStream:
        """Begin a stream, at silence or where the snapshot of another stream was taken. Nothing is computed yet."""
        return BatchStream(self, snapshot)

    def decode(self, streams: Sequence[BatchStream], codes: Sequence[Codes]) -> list[FloatArray | Exception]:
        """Samples float32 [m * 1920] of the next codes [m, 16] of some streams, no stream twice, in their order.

        `m` may differ, and be 0. Where one alone fails, as of codes of another shape, its place has the exception.
        """
        results: list[FloatArray | Exception] = []
        pending: list[_Piece] = []
        self._make_room(streams)
        asked: set[int] = set()
        checked = self.decoder.knows(codes)
        for stream, wanted in zip(streams, codes, strict=True):
            try:
                if not checked:
                    self.decoder.check(wanted)
                if id(stream) in asked:
                    raise ValueError("a stream has two pieces in one call")
                asked.add(id(stream))
                piece = _Piece(stream, self._seat(stream), wanted, self.decoder.frame_samples)
                pending.append(piece)
                results.append(piece.samples)
            except (ValueError, EngineError) as error:
                results.append(error)
        self._run_all(pending)
        failed = {id(piece.samples): piece.error for piece in pending if piece.error is not None}
        return [failed.get(id(result), result) for result in results]

    def together(self, count: int, frames: int) -> int:
        """Return how many of `count` pieces of that many frames one run decodes."""
        together = min(max(1, self._most_frames // max(1, frames)), count)
        return together if self.decoder.engine.is_cpu else _without_much_padding(together, frames)

    def snapshot(self, stream: BatchStream) -> DecoderSnapshot:
        """Copy where a stream stands."""
        lane = self._seat(stream)
        return self._memory_for(lane).snapshot(lane)

    def leave(self, stream: BatchStream) -> None:
        """Give the lane of a stream to others."""
        if stream in self._residents:
            self._residents[self._residents.index(stream)] = None

    def clear(self) -> None:
        """Let go of memory and programs, when no stream goes on."""
        self._residents.clear()
        self._lanes = None

    def _seat(self, stream: BatchStream) -> int:
        """Return the lane of a stream; the first free one becomes that of a stream that has none."""
        if stream.closed:
            raise ValueError("the stream is closed")
        if stream in self._residents:
            return self._residents.index(stream)
        lane = self._residents.index(None) if None in self._residents else len(self._residents)
        self._memory_for(lane).begin(lane, stream.beginning)
        self._residents[lane:] = [stream, *self._residents[lane + 1 :]]
        stream.beginning = None
        return lane

    def _make_room(self, streams: Sequence[BatchStream]) -> None:
        """Have lanes for all that begin, in one go; where memory does not suffice, each is told when it is seated."""
        beginning = sum(not stream.closed and stream not in self._residents for stream in streams)
        missing = beginning - self._residents.count(None)
        if missing > 1:
            with suppress(EngineError):
                self._memory_for(len(self._residents) + missing - 1)

    def _memory_for(self, lane: int) -> DecoderLanes:
        """Return memory that has a lane of this number."""
        if self._lanes is None or lane >= self._lanes.count:
            count = 1 << lane.bit_length()
            roomier = self.decoder.lanes(count)
            held = [number for number, one in enumerate(self._residents) if one is not None]
            if self._lanes is not None and held:
                roomier.take_over(self._lanes, held)
            self._lanes = roomier
        return self._lanes

    def _run_all(self, pieces: Sequence[_Piece]) -> None:
        """Decode all pieces, as many frames of each at a time as a stream alone would."""
        width = self.decoder.widest
        while width:
            able = [piece for piece in pieces if piece.has_left(width)]
            for together in self._shared_runs(sorted(able, key=lambda piece: piece.lane), width):
                self._run(together, width)
            if not able:
                width //= 2

    def _run(self, pieces: Sequence[_Piece], width: int) -> None:
        lanes = [piece.lane for piece in pieces]
        try:
            samples = self._memory_for(max(lanes)).run(
                lanes, np.stack([piece.next(width) for piece in pieces])
            )
        except EngineError as error:
            for piece in pieces:
                piece.error = error
            return
        for piece, own in zip(pieces, samples, strict=True):
            piece.take(own, width)

    def _shared_runs(self, pieces: Sequence[_Piece], width: int) -> Iterator[Sequence[_Piece]]:
        """Cut pieces of one width into those that run together."""
        while pieces:
            together = self.together(len(pieces), width)
            yield pieces[:together]
            pieces = pieces[together:]


class _Piece:
    """What one stream still has to decode in a call."""

    def __init__(self, stream: BatchStream, lane: int, codes: Codes, frame_samples: int) -> None:
        self.stream, self.lane = stream, lane
        self.samples = np.empty(len(codes) * frame_samples, np.float32)
        self.error: EngineError | None = None
        self._codes, self._frame_samples, self._done = codes, frame_samples, 0

    def has_left(self, width: int) -> bool:
        """Tell whether that many frames are left to decode."""
        return self.error is None and len(self._codes) - self._done >= width

    def next(self, width: int) -> Codes:
        """Return the codes of the next frames."""
        return self._codes[self._done : self._done + width]

    def take(self, samples: FloatArray, width: int) -> None:
        """Note the samples of the next frames."""
        self.samples[self._done * self._frame_samples :][: samples.size] = samples
        self._done += width


class BatchStream(Closing):
    """One of the streams of a batch; it is used like a `DecoderStream`, or with others by `CodecBatch.decode`.

    Attributes:
        beginning: where it begins, until it has begun; None is silence.
        closed: whether it has ended.
    """

    def __init__(self, batch: CodecBatch, snapshot: DecoderSnapshot | None) -> None:
        self._batch = batch
        self.beginning = snapshot
        self.closed = False

    def __call__(self, codes: Codes) -> FloatArray:
        """Samples float32 [m * 1920] of the next codes [m, 16].

        Raises:
            ValueError: the codes have another shape or lie outside the codebooks, or the stream is closed.
            EngineError: the device failed or ran out of memory.
        """
        (result,) = self._batch.decode([self], [codes])
        if isinstance(result, Exception):
            raise result
        return result

    def prime(self, codes: Codes) -> None:
        """Let the stream go on behind a reference, codes [m, 16], whose own samples nobody wants."""
        self(codes)

    def snapshot(self) -> DecoderSnapshot:
        """Copy where the stream stands, so that other streams may go on from there."""
        return self._batch.snapshot(self)

    def close(self) -> None:
        """End the stream. Closing twice is harmless."""
        if not self.closed:
            self._batch.leave(self)
            self.closed, self.beginning = True, None


def most_frames(engine: Engine) -> int:
    """Return how many frames of all streams one run has at most."""
    return FRAMES_ON_CPU if engine.is_cpu else FRAMES_ELSEWHERE


def _without_much_padding(count: int, width: int) -> int:
    """Return how many of `count` streams to run at once where a run has a power of two of them.

    In large runs no more than a quarter of the lanes should be idle.
    """
    padded = 1 << (count - 1).bit_length()
    return count if padded * width <= SMALL_RUN or 4 * count > 3 * padded else padded // 2
