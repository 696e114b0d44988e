"""Many speeches that are made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Generic, TypeVar

from ..closing import Closing
from .ahead import Ahead
from .observer import Observer
from .scheduler import ScheduledStream, Scheduler
from .stream import AudioChunk, SpeechStream

Item = TypeVar("Item")
Request = TypeVar("Request")
Spoken = TypeVar("Spoken")


class Speeches(Closing, Generic[Item, Spoken]):
    """Speeches in the order of their requests: an iterator, and a context manager that ends them all.

    One that failed raises when its turn comes, and the iteration can go on behind it.
    """

    def __init__(
        self,
        scheduler: Scheduler[Item, Request],
        requests: Iterable[Item],
        complete: Callable[[SpeechStream[Request], Iterable[AudioChunk]], Spoken],
        *,
        observe: Callable[[int], Observer] | None,
        options: dict[str, Any],
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Take a scheduler that serves nobody else; it is closed at the end.

        Args:
            scheduler: makes the speeches.
            requests: what is to be spoken.
            complete: reads the chunks of a stream to its end and returns the whole speech.
            observe: is given the number of each request, counted from 1, and returns who watches it.
            options: go with requests that are texts.
            settings: go with all requests.
        """
        numbers = count(1)

        def begin(request: Item) -> ScheduledStream[Request]:
            observer = observe(next(numbers)) if observe else None
            own = options if isinstance(request, str) else {}
            return scheduler.submit(request, observer=observer, ahead=None, **(settings or {}), **own)

        self._scheduler = scheduler
        self._ahead = Ahead(scheduler, requests, begin)
        self._complete = complete

    def __iter__(self) -> Speeches[Item, Spoken]:
        return self

    def __next__(self) -> Spoken:
        """Return the next speech when it is complete.

        Raises:
            UsageError: its request cannot be right for the model, or the text does not fit the context.
            EngineError: the device failed or ran out of memory.
        """
        stream = self._ahead.next()
        if stream is None:
            self.close()
            raise StopIteration
        return self._complete(stream, self._ahead.chunks(stream))

    def close(self) -> None:
        """End all speeches and let go of what they run on. Closing twice is harmless."""
        self._scheduler.close()
