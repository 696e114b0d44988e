"""Running the application as a process: a socket, signals, and an end that lets others finish."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import GgttsError
from ..parameters import HOST, PORT
from .connections import BACKLOG, Connection, allow_files
from .errors import StreamBroken

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
"""How long a connection may rest between two requests; longer than clients keep theirs."""
_KNOCKING = 512
"""How many clients may wait until their connection is taken up."""
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
_REASONS = {
    errno.EADDRINUSE: f"the port is taken, perhaps by another server: choose one with {PORT}",
    errno.EACCES: f"the system does not allow that port: choose one above 1023 with {PORT}",
    errno.EADDRNOTAVAIL: f"this machine does not have that address: choose one with {HOST}",
}


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections wait until they are served.

    Raises:
        GgttsError: the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_KNOCKING)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError, OverflowError) as error:
        reason = _REASONS.get(getattr(error, "errno", None) or 0, getattr(error, "strerror", None) or error)
        raise GgttsError(f"cannot listen on {host}:{port}: {reason}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the address under which a listening socket is reached, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Tell whether only programs on this machine can reach a socket."""
    host = str(listener.getsockname()[0])
    return host == "::1" or host.startswith("127.")


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Moments:
    """What is called in the course of serving.

    Attributes:
        begins: from now on signals ask for an end.
        ends: that was done, or the server could not start; after that, the handlers of signals are put back.
    """

    begins: Callable[[], None] = _nothing
    ends: Callable[[], None] = _nothing


_NO_MOMENTS = Moments()


def serve(app: ASGIApp, listener: socket.socket, grace: float, moments: Moments = _NO_MOMENTS) -> None:
    """Serve until a signal asks for an end (Ctrl-C, SIGTERM); then stop accepting, and let answers finish.

    Args:
        app: what `create_app` made.
        listener: what `listen` made; it is closed.
        grace: seconds that answers have to finish before they are cut. A second Ctrl-C cuts them at once.
        moments: what is called meanwhile.

    Raises:
        EngineError: the device has not enough memory for as many requests at a time.
    """
    allow_files()
    startup = _Startup(app)
    try:
        with _without_known_failures():
            make_server(startup, grace, moments).run([listener])
    except SystemExit:
        if startup.failure is None:
            raise
    if startup.failure is not None:
        raise startup.failure


def make_server(app: ASGIApp, grace: float, moments: Moments = _NO_MOMENTS) -> uvicorn.Server:
    """Return the server that `serve` runs; `should_exit` asks it for an end."""
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    return _Server(config, moments)


class _Server(uvicorn.Server):
    """A server that ends by returning: the signal that asked for it has done its work."""

    def __init__(self, config: uvicorn.Config, moments: Moments) -> None:
        super().__init__(config)
        self._moments = moments

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take up few connections at once, and let many wait for that; asyncio has one number for both."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_KNOCKING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it goes on for a while, where it does."""
        if self.server_state.tasks:
            logger.info(
                "ending: answers have %d s to finish (Ctrl-C cuts them)",
                self.config.timeout_graceful_shutdown,
            )
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let signals ask for an end while the body runs."""
        if threading.current_thread() is not threading.main_thread():
            self._moments.begins()
            yield
            self._moments.ends()
            return
        # nohup has a process ignore that its terminal goes away.
        hangup = getattr(signal, "SIGHUP", None)
        nohup = hangup is not None and signal.getsignal(hangup) is signal.SIG_IGN
        heeded = [number for number in _SIGNALS if not (nohup and number == hangup)]
        before = {number: signal.signal(number, self.handle_exit) for number in heeded}
        try:
            self._moments.begins()
            yield
        finally:
            self._moments.ends()
            for number, handler in before.items():
                signal.signal(number, handler)


class _Startup:
    """An application that keeps why it could not start, for whoever runs it to tell."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def without_traceback(message: Message) -> None:
            await send({**message, "message": ""} if message["type"].endswith(".failed") else message)

        try:
            await self._app(scope, receive, without_traceback)
        except Exception as error:
            self.failure = error


@contextmanager
def _without_known_failures() -> Iterator[None]:
    """Keep tracebacks out of the log that say nothing new: answers that were cut have had their line."""
    log = logging.getLogger("uvicorn.error")
    log.addFilter(_is_news)
    try:
        yield
    finally:
        log.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    failure = record.exc_info[1] if record.exc_info else None
    return not isinstance(failure, (StreamBroken, asyncio.CancelledError))
