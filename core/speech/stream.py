"""Speech while it is being made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..closing import Closing
from .timings import Stopwatch, Timings

StopReason = Literal["end_of_speech", "max_frames", "context", "runaway"]

Request = TypeVar("Request")


@dataclass(frozen=True)
class AudioChunk:
    """Some of the samples of a stream.

    Attributes:
        samples: float32 [n], within [-1, 1].
        frames: frames of codes that went into it.
        piece: number of the piece of text that it belongs to, counted from 1.
        pieces: how many pieces there are.
    """

    settled: ClassVar[bool] = True

    samples: NDArray[np.float32]
    frames: int
    piece: int
    pieces: int

    def finish(self) -> AudioChunk:
        """Return it: there is nothing left to do."""
        return self


class Samples(Protocol):
    """Samples that somebody makes.

    Attributes:
        settled: they are there, or will never be.
    """

    @property
    def settled(self) -> bool:
        """Whether nobody would have to wait."""

    def result(self) -> NDArray[np.float32]:
        """Return them, float32 [n], once they are there; or raise why they will not be. To be asked once."""


@dataclass(frozen=True, eq=False)
class LaterChunk:
    """A chunk whose samples are on their way. It is finished by whoever reads it, one after the other.

    Attributes:
        samples: what it waits for.
        join: makes the chunk of them; None where there is nothing to be heard yet.
    """

    samples: Samples
    join: Callable[[NDArray[np.float32]], AudioChunk | None]

    @property
    def settled(self) -> bool:
        """Whether it can be finished."""
        return self.samples.settled

    def finish(self) -> AudioChunk | None:
        """Return the chunk, if there is something to be heard by now; raises what the making of the samples did."""
        return self.join(self.samples.result())


Chunk: TypeAlias = "AudioChunk | LaterChunk"


def finished(chunks: Generator[Chunk, None, None]) -> Generator[AudioChunk, None, None]:
    """Finish chunks one after the other; closing it closes them."""
    with closing(chunks):
        for chunk in chunks:
            heard = chunk.finish()
            if heard is not None:
                yield heard


class Cancelled(Exception):
    """Ends the making of a speech whose stream was closed meanwhile."""


@dataclass
class Account:
    """What is known about a speech so far, kept up to date while it is made.

    Attributes:
        frames: how many there are.
        stop: why it ended, None as long as it goes on. Of several pieces, the first that did not come to its end
            says why.
        codes: the codes [codebooks] of each frame, where they are wanted.
        unheard: how many chunks wait to be read.
        cancelled: set when nobody wants the rest.
    """

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    frames: int = 0
    stop: StopReason | None = None
    codes: list[NDArray[np.int32]] | None = None
    unheard: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    _cut_off: StopReason | None = None

    def add(self, codes: NDArray[np.int32]) -> None:
        """Take note of a frame [codebooks]."""
        self.frames += 1
        if self.codes is not None:
            self.codes.append(codes)

    def require_listener(self) -> None:
        """Raise Cancelled if nobody wants the rest."""
        if self.cancelled.is_set():
            raise Cancelled

    def end_piece(self, stop: StopReason, last: bool) -> None:
        """Take note of why a piece ended, and whether it was the last one."""
        if stop != "end_of_speech" and self._cut_off is None:
            self._cut_off = stop
        if last:
            self.stop = self._cut_off or stop


class SpeechStream(Closing, Generic[Request]):
    """Audio chunks, each made when it is asked for. An iterator, and a context manager that closes it.

    One thread iterates; any thread may close.
    """

    def __init__(
        self,
        request: Request,
        sample_rate: int,
        chunks: Generator[AudioChunk, None, None],
        account: Account,
    ) -> None:
        self.request = request
        self.sample_rate = sample_rate
        self._chunks = chunks
        self._account = account
        account.stopwatch.pause()
        self._lock = threading.RLock()
        self._running = False

    @property
    def account(self) -> Account:
        """What is known about the speech so far."""
        return self._account

    @property
    def stop(self) -> StopReason | None:
        """Why the speech ended; None as long as it goes on, and when it was closed before its end."""
        return self._account.stop

    @property
    def frames(self) -> int:
        """Frames of codes made so far."""
        return self._account.frames

    @property
    def timings(self) -> Timings:
        """Where the time has gone so far."""
        return self._account.stopwatch.timings()

    def __iter__(self) -> SpeechStream[Request]:
        return self

    def __next__(self) -> AudioChunk:
        """Return the next chunk.

        Raises:
            UsageError: the text does not fit the context of the model.
            EngineError: the device failed or ran out of memory.
        """
        with self._lock:
            if self._account.cancelled.is_set():
                raise StopIteration
            self._running = True
            self._account.stopwatch.resume()
            try:
                return next(self._chunks)
            except Cancelled:
                raise StopIteration from None
            finally:
                self._running = False
                self._account.stopwatch.pause()
                if self._account.cancelled.is_set():
                    self._chunks.close()

    def close(self) -> None:
        """End the speech and let go of what it runs on. Closing twice is harmless.

        Called by another thread while a chunk is being made, it returns when the frame at hand is done.
        """
        self._account.cancelled.set()
        with self._lock:
            if not self._running:
                self._chunks.close()
