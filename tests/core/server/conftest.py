"""Servers to ask: in this process with a model that hums, or on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from starlette.testclient import TestClient

from ggtts.core.server.app import Server
from ggtts.core.server.families import Family
from ggtts.core.server.options import ServerOptions
from ggtts.core.server.serving import address_of, listen, make_server
from support.humming_family import HummingFamily


@dataclass(frozen=True)
class Humming:
    """A server in this process."""

    family: HummingFamily
    server: Server
    client: TestClient

    def speak(self, text: str = "one two three", **fields: Any) -> Any:
        """Ask for speech."""
        return self.client.post("/v1/audio/speech", json={"input": text, **fields})


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


def wait_until_ready(client: Any) -> None:
    """Return when the server says that it is warm."""
    while client.get("/health").json()["status"] == "warming":
        pass


@dataclass(frozen=True)
class Online:
    """A server on a socket."""

    server: Server
    host: str
    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def online(family: Family, grace: float = 5, **options: Any) -> Iterator[Online]:
    """Run a server on a free port, in a thread."""
    server = Server(family, ServerOptions(**options))
    listener = listen("127.0.0.1", 0)
    host, port = address_of(listener).removeprefix("http://").split(":")
    runner = make_server(server.app, grace)
    thread = threading.Thread(target=runner.run, args=([listener],))
    thread.start()
    try:
        yield Online(server, host, int(port))
    finally:
        runner.should_exit = True
        thread.join()


@pytest.fixture
def humming_online() -> Iterator[Callable[..., tuple[HummingFamily, Online]]]:
    """`humming_online(max_batch=2)` starts a server that hums on a socket."""
    with ExitStack() as stack:

        def start(family: HummingFamily | None = None, **options: Any) -> tuple[HummingFamily, Online]:
            family = family or HummingFamily()
            return family, stack.enter_context(online(family, **options))

        yield start
