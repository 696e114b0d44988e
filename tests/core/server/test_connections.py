"""Connections that are not what they should be: endless, silent, slow, or no HTTP at all."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ggtts.core.server import connections
from support.humming_family import HummingFamily
from support.patience import PATIENCE, wait_until

from .conftest import Online
from .test_sockets import all_closed, connect, connected, everything, hung_up, request, until

Start = Callable[..., tuple[HummingFamily, Online]]


def drip(connection: socket.socket, drop: bytes, pause: float) -> bool:
    """Send the same again and again; whether that comes to an end."""
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            connection.sendall(drop)
            time.sleep(pause)
    except OSError as error:
        if not hung_up(error):
            raise
        return True
    return False


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What went wrong in the server; not what the garbage collector finds of an earlier one."""
    messages = [record.getMessage() for record in caplog.records if record.exc_info]
    return [message for message in messages if "never retrieved" not in message]


@contextmanager
def connected_with(server: Online, data: bytes) -> Iterator[socket.socket]:
    """A connection on which this has come when the server takes it up, however slow the client is."""
    with server.held():
        connection = connect(server)
        connection.sendall(data)
    with connection:
        yield connection


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X-A: " + b"y" * 1000 + b"\r\n"),
        (b"GET /", b"a" * 1000),
        (b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 1000),
    ],
    ids=["headers", "path", "chunk"],
)
def test_what_never_ends_is_cut_soon(humming_online: Start, start: bytes, more: bytes) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(start)
        assert drip(connection, more, 0)


@pytest.mark.parametrize("begun", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\n"])
def test_who_never_asks_is_given_up(humming_online: Start, impatient: None, begun: bytes) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(begun)
        assert everything(connection) == b""


def test_a_head_that_drips_is_given_up(humming_online: Start, impatient: None) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        assert drip(connection, b"X: y\r\n", 0.02)


def test_a_body_that_drips_behind_its_answer_is_given_up(humming_online: Start, impatient: None) -> None:
    _, server = humming_online()
    with connected_with(
        server, b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    ) as connection:
        assert b" 404 " in until(connection, b"}}")
        assert drip(connection, b"x", 0.02)


def test_who_asked_may_wait_and_ask_again(humming_online: Start) -> None:
    family, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one wait two"))
        for again in range(2):
            if again:
                family.go.clear()
                connection.sendall(request("one wait two"))
            until(connection, b"\r\n\r\nf00\r\n")
            server.put_forward(connections.HEAD_SECONDS + 1)
            family.go.set()
            until(connection, b"0\r\n\r\n")
            server.put_forward(connections.HEAD_SECONDS + 1)  # a connection may rest for longer
        connection.sendall(request("one") + request("two"))
        until(connection, b"0\r\n\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\n{}",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["TLS", "no host", "two hosts", "two lengths", "space", "gzip", "chunk", "chunk elsewhere"],
)
def test_what_is_no_http_is_told_as_any_error(
    humming_online: Start, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(data)
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "invalid_http"
    assert failures(caplog) == []


def test_a_chunk_that_is_none_behind_an_answer_ends_the_connection(
    humming_online: Start, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(
            b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
        )
        until(connection, b"}}")
        connection.sendall(b"zz\r\n")
        assert everything(connection) == b""
    assert failures(caplog) == []


def test_what_is_hidden_behind_a_second_length_is_not_answered(humming_online: Start) -> None:
    _, server = humming_online()
    hidden = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(head % (5 + len(hidden)) + b"0\r\n\r\n" + hidden)
        answers = everything(connection)
    assert answers.count(b"HTTP/1.1 ") == 1
    assert answers.startswith(b"HTTP/1.1 400 ")


def test_offers_of_other_protocols_are_ignored(
    humming_online: Start, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n")
        assert b" 200 OK" in everything(connection)
    assert "pip install" not in caplog.text


def test_requests_in_a_row_are_answered_in_their_order(humming_online: Start) -> None:
    family, server = humming_online(max_batch=1)
    with connected(server) as connection:
        models = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall(request("one", response_format="wav") + request("two") + models)
        answers = everything(connection)
    assert answers.count(b"HTTP/1.1 200 ") == 3
    assert answers.index(b"RIFF") < answers.index(b"audio/pcm") < answers.index(b'"data"')
    all_closed(family, server)


def test_many_silent_connections_keep_nobody_out(humming_online: Start) -> None:
    _, server = humming_online()
    silent = [connect(server) for _ in range(min(200, connections.most_connections()))]
    with connected(server) as connection:
        connection.sendall(request("one"))
        until(connection, b"0\r\n\r\n")
    for connection in silent:
        connection.close()


def test_bodies_of_voices_that_do_not_come_keep_nobody_waiting(humming_online: Start) -> None:
    _, server = humming_online()
    head = b"POST /v1/audio/voices HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    slow = [connect(server) for _ in range(3)]
    for connection in slow:
        connection.sendall(head)
    with connected(server) as connection:  # a body that comes overtakes them
        connection.sendall(head.replace(b"99", b"2") + b"}")
        assert b"name is missing" in until(connection, b"}}")
    slow += [connect(server) for _ in range(6)]
    for connection in slow[3:]:
        connection.sendall(head)
    answered, _, _ = select.select(slow, [], [], PATIENCE)
    assert [b" 429 " in connection.recv(1 << 16) for connection in answered] == [True]
    for connection in slow:
        connection.close()

    def has_room() -> bool:
        with connected(server) as connection:
            connection.sendall(head.replace(b"99", b"2") + b"}")
            return b"name is missing" in until(connection, b"}}")

    wait_until(has_room)  # when the server has noticed


@pytest.mark.parametrize("clock", [time.monotonic_ns, lambda: 0], ids=["usual", "too coarse"])
def test_there_is_always_room_for_one_who_asks(
    humming_online: Start, monkeypatch: pytest.MonkeyPatch, clock: Callable[[], int]
) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 5)
    monkeypatch.setattr(connections, "monotonic_ns", clock)
    family, server = humming_online()
    with connected(server) as speaking:
        speaking.sendall(request("one wait two"))
        until(speaking, b"\r\n\r\nf00\r\n")
        silent = [connect(server) for _ in range(30)]
        with connected(server) as late:
            late.sendall(request("one"))
            until(late, b"0\r\n\r\n")
        assert everything(silent[0]) == b""
        family.go.set()
        until(speaking, b"0\r\n\r\n")
        for connection in silent:
            connection.close()


def test_connections_leave_files_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {"now": (1024, 1 << 20)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, values: limits.update(now=values))
    assert 500 < connections.most_connections() < 1024
    connections.allow_files()
    assert limits["now"] == (connections.MOST_FILES, 1 << 20)
    assert 3000 < connections.most_connections() < connections.MOST_FILES
    for few in (100, 256):
        limits["now"] = (few, few)
        connections.allow_files()
        assert limits["now"] == (few, few)
        assert 0 < connections.most_connections() < few
    limits["now"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    connections.allow_files()
    assert limits["now"][0] == resource.RLIM_INFINITY
    assert connections.most_connections() < connections.MOST_FILES
