"""Streams that begin before their turn comes, so that no place of a scheduler is empty, and are read in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from .scheduler import ScheduledStream, Scheduler
from .stream import AudioChunk

Item = TypeVar("Item")
Request = TypeVar("Request")

LOOKAHEAD = 4
"""How many streams there are at most for each place: those that are done wait for a long one before them."""


class Ahead(Generic[Item, Request]):
    """Begins a stream for each item while there are free places, and hands the streams out in the order of the items.

    Items are taken by the thread that reads, whenever it asks for a stream or a chunk.
    """

    def __init__(
        self,
        scheduler: Scheduler[Any, Request],
        items: Iterable[Item],
        begin: Callable[[Item], ScheduledStream[Request]],
    ) -> None:
        """`begin` submits what an item stands for to `scheduler`, which should serve nobody else."""
        self._scheduler = scheduler
        self._items = iter(items)
        self._begin = begin
        self._begun: deque[ScheduledStream[Request] | Exception] = deque()
        self._exhausted = False

    def next(self) -> ScheduledStream[Request] | None:
        """Return the stream of the next item, None behind the last one.

        Raises:
            Exception: what `begin` raised for that item, or what the items did instead of it.
        """
        self._top_up()
        if not self._begun:
            return None
        following = self._begun.popleft()
        if isinstance(following, Exception):
            raise following
        return following

    def chunks(self, stream: ScheduledStream[Request]) -> Iterator[AudioChunk]:
        """Yield the chunks of a stream, and see to it meanwhile that no place becomes empty."""
        for chunk in stream:
            self._top_up()
            yield chunk

    def _top_up(self) -> None:
        while not self._exhausted and self._has_place():
            try:
                item = next(self._items)
            except StopIteration:
                self._exhausted = True
            except Exception as error:
                self._exhausted = True
                self._begun.append(error)
            else:
                self._begun.append(self._started(item))

    def _has_place(self) -> bool:
        busy = self._scheduler.occupancy
        return busy.active + busy.waiting < busy.capacity and len(self._begun) < LOOKAHEAD * busy.capacity

    def _started(self, item: Item) -> ScheduledStream[Request] | Exception:
        try:
            return self._begin(item)
        except Exception as error:
            return error
