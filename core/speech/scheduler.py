"""Many speeches at once on one thread: they join and leave at any frame, and take every step of a model together.

One step of a batch reads the weights of a model once for all of it, and reading weights is what a step of one speech
mostly does. What a speech says never depends on who else is in the batch.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..closing import Closing
from ..errors import UsageError
from .background import Background
from .calls import Stage
from .lockstep import Lockstep, Speech, Task
from .observer import Observer
from .stream import AudioChunk, SpeechStream

CHUNKS_AHEAD = 16
"""How many chunks of a speech may wait to be read before it pauses."""

Request = TypeVar("Request")
Asked = TypeVar("Asked", contravariant=True)


class Begin(Protocol[Asked, Request]):
    """How a model begins a speech: checks the request, and computes nothing."""

    def __call__(
        self, request: Asked, *, stream_frames: int | None, observer: Observer | None, **options: Any
    ) -> Task[Request]:
        """Raises `UsageError` when the request cannot be right."""


@dataclass(frozen=True)
class Occupancy:
    """How busy a scheduler is.

    Attributes:
        active: speeches that have a place in the batch.
        waiting: speeches that wait for one.
        capacity: places.
    """

    active: int
    waiting: int
    capacity: int


class Scheduler(Closing, Generic[Asked, Request]):
    """Speaks up to `capacity` requests at a time, and lets the others wait in the order they came.

    Usable from any number of threads. Everything is computed, and every observer is called, by one thread of the
    scheduler's own, which begins with the first request. As a context manager it is closed at the end; one that is
    forgotten, or still open when the program ends, closes by itself.
    """

    def __init__(
        self,
        begin: Begin[Asked, Request],
        capacity: int,
        *,
        stages: Sequence[Stage[Any, Any]] = (),
        release: Callable[[], None] | None = None,
        background: Background[Any, Any] | None = None,
    ) -> None:
        """Use `QwenTTS.scheduler` or `OmniVoice.scheduler`; this is what they call.

        Args:
            begin: makes the task of a request. Its chunks are an async generator whose calls belong to `stages`, or a
                plain generator, which is resumed for one chunk at a time in turn with the others.
            capacity: how many requests are spoken at a time.
            stages: the kinds of calls, in the order in which one step of the batch makes them.
            release: lets go of the memory of the batch; called once, by the thread of the scheduler, at its end.
            background: makes calls of another stage meanwhile; `release` closes it.

        Raises:
            UsageError: the capacity is below 1.
        """
        if capacity < 1:
            raise UsageError(f"{capacity} requests cannot be spoken at once: at least 1 is needed")
        self._begin = begin
        self._capacity = capacity
        self._lockstep = Lockstep(capacity, stages, release, background)
        self._finalizer = weakref.finalize(self, self._lockstep.close)

    def submit(
        self,
        request: Asked,
        *,
        stream_frames: int | None = None,
        observer: Observer | None = None,
        ahead: int | None = CHUNKS_AHEAD,
        **options: Any,
    ) -> ScheduledStream[Request]:
        """Let a request be spoken as soon as there is a place; return its audio as a stream.

        Args:
            request: what to say and how, or the text alone with `options`, as the `stream` of the model takes them.
            stream_frames: most frames of a chunk.  [the model's own rule; more while chunks wait to be read]
            observer: is told about pieces, frames and, if it wants them, stages of the model, by the scheduler's
                thread: it should be quick.
            ahead: how many chunks may wait to be read before this speech pauses, and no other does; None for any
                number.

        Raises:
            UsageError: the request cannot be right for this model.
            EngineError: the scheduler is closed.
        """
        return self.add(
            self._begin(request, stream_frames=stream_frames, observer=observer, **options), ahead=ahead
        )

    def add(self, task: Task[Request], *, ahead: int | None = CHUNKS_AHEAD) -> ScheduledStream[Request]:
        """Let a task be done as soon as there is a place; `submit` makes one from a request.

        Raises:
            UsageError: `ahead` is below 1.
            EngineError: the scheduler is closed.
        """
        if ahead is not None and ahead < 1:
            raise UsageError(f"{ahead} chunks cannot wait to be read: at least 1 has to")
        speech = Speech(task, ahead)
        stream = ScheduledStream(task, speech, self._lockstep)
        self._lockstep.add(speech)
        return stream

    @property
    def occupancy(self) -> Occupancy:
        """How busy it is now."""
        active, waiting = self._lockstep.count()
        return Occupancy(active, waiting, self._capacity)

    def close(self) -> None:
        """End all speeches and the thread, and let go of the memory of the batch. Closing twice is harmless.

        Streams that are not at their end raise `EngineError` when they are read on, behind the chunks they have.
        """
        self._finalizer()


class ScheduledStream(SpeechStream[Request]):
    """Audio chunks that a scheduler makes, whether they are asked for or not. A forgotten stream is closed.

    One thread iterates; any thread may close. Its timings are those of the speech in its batch: the times of all parts
    contain what the batch did for others meanwhile.
    """

    def __init__(self, task: Task[Request], speech: Speech, lockstep: Lockstep) -> None:
        super().__init__(task.request, task.sample_rate, _nothing(), task.account)
        self._speech = speech
        self._lockstep = lockstep
        self._reading = threading.Lock()

    def __next__(self) -> AudioChunk:
        """Return the next chunk, as soon as there is one.

        Raises:
            UsageError: the text does not fit the context of the model.
            EngineError: the device failed or ran out of memory, or the scheduler was closed.
        """
        with self._reading:
            chunk = self._lockstep.take(self._speech)
        if chunk is None:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Want no more of it: its place is free with the next step of the batch. Closing twice is harmless."""
        self._lockstep.cancel(self._speech)

    def __del__(self) -> None:
        self.close()


def _nothing() -> Generator[AudioChunk, None, None]:
    yield from ()
