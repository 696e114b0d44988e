"""Connections as uvicorn serves them, with an end to what it does not bound by itself: heads, waiting, and number."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib.util import find_spec
from time import monotonic_ns

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import invalid

HEAD_SECONDS = 30.0
"""How long a client may take to send the head of a request, from the moment it connects or begins with it."""
BACKLOG = 64
"""How many connections are taken up at once."""
MOST_FILES = 4096
"""How many files a process should be able to have open; more are of no use to a server of speech."""
_OTHER_FILES = 64 + 4 * BACKLOG
"""Open files that are no connections, or ones that came so recently that nobody has counted them."""
_FEWEST_CONNECTIONS = 32


class Connection(H11Protocol):
    """HTTP/1.1 in bounded memory and time.

    It is h11 that reads, whatever else is installed: httptools, which uvicorn prefers, takes headers without end.
    """

    _deadline: asyncio.TimerHandle | None = None
    _last_heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._last_heard = monotonic_ns()  # a loop may have the same time for all that it finds at once
        if len(self.connections) > most_connections():
            self._make_room()
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Expect what is begun to become complete."""
        self._last_heard = monotonic_ns()
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self._relax()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, as long as there is no other answer yet, as every other error is answered."""
        if self.cycle is not None:  # nobody can read what is made for the beginning of it
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        answer = invalid("this is no request of HTTP/1.1", code="invalid_http").response()
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=answer.status_code, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect(self) -> None:
        """Give a request some time to arrive; one that is being answered has arrived, and its body is looked after."""
        if self._answering:
            self._relax()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Give up the client that has been silent for longest, this one if there is no other."""
        silent = [
            other
            for other in self.connections
            if isinstance(other, Connection)
            and other is not self
            and not other._answering
            and not other.transport.is_closing()
        ]
        min(silent, key=lambda other: other._last_heard, default=self).transport.abort()

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _should_upgrade(self) -> bool:
        """Speak HTTP/1.1 to those who offer anything else besides."""
        return False


def most_connections() -> int:
    """Return how many connections there may be: without a file to open for the next one, a server is at its end."""
    return max(_FEWEST_CONNECTIONS, min(_most_files(), MOST_FILES) - _OTHER_FILES)


def allow_files() -> None:
    """Let this process open more files, where the system gave it few and lets it have more."""
    if find_spec("resource") is None:  # Windows
        return
    import resource

    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if few != resource.RLIM_INFINITY and few < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _most_files() -> int:
    """How many files this process may have open, where it matters."""
    if find_spec("resource") is None:
        return MOST_FILES
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_FILES if most == resource.RLIM_INFINITY else most
