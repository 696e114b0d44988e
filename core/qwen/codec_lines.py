"""How the codes of a piece of speech reach the codec: at once, or beside what else is computed.

A line is one stream of the decoder. What is handed over to it is decoded in order; with a line that works beside, the
next frames are made meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..closing import Closing
from ..engine import Engine
from ..speech.background import Background
from ..speech.calls import Call
from ..speech.stream import Samples
from .codec import CodecBatch, CodecDecoder, DecoderSnapshot
from .codec_stage import CodecAnswer, CodecStage, CodecWork, Decode, Forget, Place, Prime, Snapshot

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]

BESIDE_THREAD_NAME = "ggtts-codec"


class Handed(Samples, Protocol):
    """Codes on their way: awaited, they are samples float32 [n]."""

    def __await__(self) -> Generator[Any, None, FloatArray]:
        """Wait for the samples."""

    async def made(self) -> None:
        """Wait until they are there, and leave them to somebody else."""


class CodecLine(Closing):
    """One stream of the decoder.

    Attributes:
        beside: what is handed over is decoded while its speech goes on.
        shares_threads: on threads that are then missed elsewhere.
    """

    beside: bool
    shares_threads: bool

    @abstractmethod
    def hand_over(self, codes: Codes, *, awaited: bool = False) -> Handed:
        """Let codes [frames, codebooks] be decoded behind the others; `awaited` if nothing else is done meanwhile."""

    @abstractmethod
    async def prime(self, codes: Codes, *, last: bool) -> DecoderSnapshot | None:
        """Go on behind codes whose samples nobody wants; return where the stream stands then if they are the `last`."""

    @abstractmethod
    async def snapshot(self) -> DecoderSnapshot:
        """Copy where the stream stands behind all that was handed over."""


class CodecLines(Protocol):
    """Begins lines.

    Attributes:
        apart: a thread of its own decodes for all of them; whoever hears a speech need not wait for that.
    """

    @property
    def apart(self) -> bool:
        """Whether that is so."""

    def line(self, snapshot: DecoderSnapshot | None = None) -> CodecLine:
        """Begin a stream, at silence or where the snapshot of another stream was taken."""


class OwnLines:
    """Lines of speeches that are made alone, each on the thread of its reader."""

    apart = False

    def __init__(self, decoder: CodecDecoder, beside: Engine | None) -> None:
        """`beside` is the second engine, where the decoder is on one: then each line has a thread, too."""
        self._decoder, self._beside = decoder, beside

    def line(self, snapshot: DecoderSnapshot | None = None) -> CodecLine:
        """Begin a stream."""
        return OwnLine(self._decoder, snapshot, self._beside)


class Done:
    """Samples that are there."""

    settled = True

    def __init__(self, samples: FloatArray) -> None:
        self._samples = samples

    def __await__(self) -> Generator[Any, None, FloatArray]:
        return self._taken().__await__()

    async def made(self) -> None:
        """Wait for nothing."""

    def result(self) -> FloatArray:
        """Return them."""
        return self._samples

    async def _taken(self) -> FloatArray:
        return self._samples


class _OnItsWay:
    """Samples that another thread makes. Nobody else waits here: it blocks."""

    def __init__(self, future: Future[FloatArray], engine: Engine) -> None:
        self._future, self._engine = future, engine

    @property
    def settled(self) -> bool:
        return self._future.done()

    def __await__(self) -> Generator[Any, None, FloatArray]:
        return self._taken().__await__()

    async def made(self) -> None:
        self.result()

    def result(self) -> FloatArray:
        with _all_threads(self._engine):
            return self._future.result()

    async def _taken(self) -> FloatArray:
        return self.result()


@contextmanager
def _all_threads(engine: Engine) -> Iterator[None]:
    """Let a second engine have all threads: who computes on the first one waits for it."""
    engine.end_sharing()
    try:
        yield
    finally:
        engine.begin_sharing()


class OwnLine(CodecLine):
    """A line of a speech by itself. What is awaited at once is decoded by its own thread, without any hop."""

    def __init__(
        self, decoder: CodecDecoder, snapshot: DecoderSnapshot | None, engine: Engine | None
    ) -> None:
        self.beside = engine is not None
        self.shares_threads = decoder.engine.is_cpu
        self._stream = decoder.stream(snapshot)
        self._engine = engine
        self._worker: ThreadPoolExecutor | None = None
        self._last: Future[FloatArray] | None = None

    def hand_over(self, codes: Codes, *, awaited: bool = False) -> Handed:
        """Decode at once, or let the worker do it behind what it has."""
        if self._engine is None or (self._worker is None and awaited):
            return Done(self._stream(codes))
        if awaited and self._last is not None and self._last.done():
            with _all_threads(self._engine):
                return Done(self._stream(codes))
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, BESIDE_THREAD_NAME)
            self._engine.begin_sharing()
        self._last = self._worker.submit(self._stream, codes)
        return _OnItsWay(self._last, self._engine)

    async def prime(self, codes: Codes, *, last: bool) -> DecoderSnapshot | None:
        """Go on behind codes."""
        self._stream.prime(codes)
        return self._stream.snapshot() if last else None

    async def snapshot(self) -> DecoderSnapshot:
        """Copy where the stream stands."""
        if self._worker is None:
            return self._stream.snapshot()
        return self._worker.submit(self._stream.snapshot).result()

    def close(self) -> None:
        """End the stream, when the piece at hand is done."""
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                worker.shutdown(wait=True, cancel_futures=True)
        finally:  # Ctrl-C may come while it waits
            if worker is not None and self._engine is not None:
                self._engine.end_sharing()
            self._stream.close()


class BatchLines:
    """Lines of speeches in a batch, which are decoded together: by their scheduler, or by a thread of their own.

    Attributes:
        stage: of the scheduler, where it has to make the calls.
        background: the thread, where there is one.
        on_cpu: where they are decoded.
    """

    def __init__(self, decoder: CodecDecoder, capacity: int, beside: Engine | None) -> None:
        """`beside` is the second engine, where the decoder is on one."""
        self.on_cpu = decoder.engine.is_cpu
        self._batch = CodecBatch(decoder, capacity)
        self.stage = CodecStage(self._batch, beside=beside is not None)
        self.background = None if beside is None else Background(self.stage, _sharing_of(beside))

    @property
    def apart(self) -> bool:
        """Whether a thread of its own decodes."""
        return self.background is not None

    def line(self, snapshot: DecoderSnapshot | None = None) -> CodecLine:
        """Begin a stream; what it needs is allocated when it is first computed."""
        return BatchLine(self, Place(snapshot))

    def call(self, work: CodecWork) -> Call[CodecWork, CodecAnswer]:
        """Return a call, which is on its way already if there is a thread for it."""
        return self.stage.call(work) if self.background is None else self.background.call(work)

    def clear(self) -> None:
        """End the thread, and let go of memory and programs, when no line goes on."""
        if self.background is not None:
            self.background.close()
        self._batch.clear()


def _sharing_of(engine: Engine) -> Callable[[bool], None]:
    return lambda wanted: engine.begin_sharing() if wanted else engine.end_sharing()


class BatchLine(CodecLine):
    """A line among others."""

    def __init__(self, lines: BatchLines, place: Place) -> None:
        self.beside, self.shares_threads = lines.apart, lines.on_cpu
        self._lines = lines
        self._place: Place | None = place
        self._asked: deque[Call[CodecWork, CodecAnswer]] = deque()

    def hand_over(self, codes: Codes, *, awaited: bool = False) -> Handed:
        """Ask for samples together with others."""
        return cast(Handed, self._call(Decode(self._begun(), codes)))

    async def prime(self, codes: Codes, *, last: bool) -> DecoderSnapshot | None:
        """Go on behind codes."""
        return cast("DecoderSnapshot | None", await self._call(Prime(self._begun(), codes, last)))

    async def snapshot(self) -> DecoderSnapshot:
        """Copy where the stream stands."""
        return cast(DecoderSnapshot, await self._call(Snapshot(self._begun())))

    def close(self) -> None:
        """End the stream; what it waits for is not made any more."""
        place, self._place = self._place, None
        if place is None:
            return
        background = self._lines.background
        if background is None:
            place.close()
        else:
            background.drop(self._asked)
            background.call(Forget(place))

    def _begun(self) -> Place:
        if self._place is None:
            raise ValueError("the stream is closed")
        return self._place

    def _call(self, work: CodecWork) -> Call[CodecWork, CodecAnswer]:
        while self._asked and self._asked[0].settled:
            self._asked.popleft()
        call = self._lines.call(work)
        self._asked.append(call)
        return call
