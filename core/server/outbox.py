"""From the thread that makes an answer to the client that reads it: a bounded buffer between threads and event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress

UNREAD_BYTES = 1 << 20
"""How much a client may leave unread before its speech pauses: 20 s of raw samples, or more than a minute of MP3."""


class ReaderLeft(Exception):
    """Nobody reads any more."""


class Outbox:
    """Bytes that one thread puts in and the event loop takes out."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_unread: int | None = UNREAD_BYTES) -> None:
        """`most_unread` is how many bytes may lie here before `put` waits; None is any number."""
        self._loop = loop
        self._most_unread = most_unread
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._error: BaseException | None = None
        self._cancelled = False
        self._told = False
        self._room = threading.Condition()
        self._news = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Put bytes in; wait while there are too many. Called by the thread that makes them.

        Raises:
            ReaderLeft: nobody wants them.
        """
        with self._room:
            while not self._cancelled and self._parts and self._is_full():
                self._room.wait()
            if self._cancelled:
                raise ReaderLeft
            if not data:
                return
            self._parts.append(data)
            self._size += len(data)
            known, self._told = self._told, True
        if not known:  # or the event loop is on its way here
            self._tell()

    def finish(self, error: BaseException | None = None) -> None:
        """Say that there will be no more, because of an error if there is one. Called by the thread."""
        with self._room:
            self._ended, self._error = True, error
        self._tell()

    async def take(self) -> bytes:
        """Return what there is, as soon as there is something; b"" at the end.

        Raises:
            BaseException: the error that it ended with, behind the bytes that came before it.
        """
        while True:
            self._news.clear()
            with self._room:
                self._told = False
                if self._parts:
                    data = b"".join(self._parts)
                    self._parts.clear()
                    self._size = 0
                    self._room.notify_all()
                    return data
                if self._ended:
                    if self._error is not None:
                        raise self._error
                    return b""
            await self._news.wait()

    def cancel(self) -> None:
        """Throw everything away: nobody reads any more. Called by the event loop."""
        with self._room:
            self._cancelled = True
            self._parts.clear()
            self._size = 0
            self._room.notify_all()

    def _is_full(self) -> bool:
        return self._most_unread is not None and self._size >= self._most_unread

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the event loop is closed, and so is every connection
            self._loop.call_soon_threadsafe(self._news.set)
