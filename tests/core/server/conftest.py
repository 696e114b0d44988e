"""Servers to ask: in this process with a model that hums, or on a real socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import uvicorn
from starlette.testclient import TestClient

from ggtts.core.server.app import Server
from ggtts.core.server.families import Family
from ggtts.core.server.options import ServerOptions
from ggtts.core.server.serving import address_of, listen, make_server
from support.humming_family import HummingFamily
from support.patience import PATIENCE, wait_until


def put_forward(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Let so many seconds pass at once on an event loop of another thread: what waits that long has waited long enough.

    So no test has to be quicker than the patience of the server, and none waits for its end.
    """
    moved, time = threading.Event(), loop.time

    def move() -> None:
        loop.time = lambda: time() + seconds  # type: ignore[method-assign]
        moved.set()

    loop.call_soon_threadsafe(move)
    assert moved.wait(PATIENCE)


@dataclass(frozen=True)
class Humming:
    """A server in this process."""

    family: HummingFamily
    server: Server
    client: TestClient

    def speak(self, text: str = "one two three", **fields: Any) -> Any:
        """Ask for speech."""
        return self.client.post("/v1/audio/speech", json={"input": text, **fields})

    def put_forward(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        assert self.client.portal is not None
        put_forward(self.client.portal.call(_running_loop), seconds)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture
def humming() -> Iterator[Callable[..., Humming]]:
    """`humming(max_queue=2)` starts a server that hums, with these options."""
    with ExitStack() as stack:

        def start(family: HummingFamily | None = None, **options: Any) -> Humming:
            family = family or HummingFamily()
            server = Server(family, ServerOptions(**options))
            client = stack.enter_context(TestClient(server.app, raise_server_exceptions=False))
            wait_until_ready(client)
            return Humming(family, server, client)

        yield start


def wait_until_ready(client: TestClient) -> None:
    """Return when the server says that it is warm."""
    wait_until(lambda: client.get("/health").json()["status"] != "warming")


@dataclass(frozen=True)
class Online:
    """A server on a socket."""

    server: Server
    host: str
    port: int
    runner: uvicorn.Server

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many there are that it knows of."""
        return len(self.runner.server_state.connections)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """What it runs on."""
        wait_until(lambda: self.runner.started)
        return self.runner.servers[0].get_loop()

    def put_forward(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        put_forward(self.loop, seconds)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let it look at nothing that is sent to it before the end."""
        holding, release = threading.Event(), threading.Event()

        def hold() -> None:
            holding.set()
            release.wait(PATIENCE)

        self.loop.call_soon_threadsafe(hold)
        assert holding.wait(PATIENCE)
        try:
            yield
        finally:
            release.set()


def is_warm(server: Online) -> bool:
    """Whether it says so; one that has little patience with its clients may hang up before it is asked."""
    connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        connection.request("GET", "/health")
        return bool(json.loads(connection.getresponse().read())["status"] != "warming")
    except (ConnectionError, HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def online(family: Family, grace: float = 5, **options: Any) -> Iterator[Online]:
    """Run a server on a free port, in a thread; it is warm."""
    server = Server(family, ServerOptions(**options))
    listener = listen("127.0.0.1", 0)
    host, port = address_of(listener).removeprefix("http://").split(":")
    runner = make_server(server.app, grace)
    runner.config.loop = "asyncio"  # the time of other loops cannot be put forward
    thread = threading.Thread(target=runner.run, args=([listener],), daemon=True)
    thread.start()
    try:
        running = Online(server, host, int(port), runner)
        wait_until(lambda: is_warm(running))
        yield running
    finally:
        runner.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def humming_online() -> Iterator[Callable[..., tuple[HummingFamily, Online]]]:
    """`humming_online(max_batch=2)` starts a server that hums on a socket."""
    with ExitStack() as stack:

        def start(family: HummingFamily | None = None, **options: Any) -> tuple[HummingFamily, Online]:
            family = family or HummingFamily()
            return family, stack.enter_context(online(family, **options))

        yield start
