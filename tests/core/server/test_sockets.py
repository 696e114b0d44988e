"""What only shows on a real connection: streams that break, clients that leave, and clients that do not read."""

from __future__ import annotations

import base64
import errno
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ggtts.core.server import outbox, speech_endpoint
from support.humming_family import HummingFamily
from support.patience import PATIENCE, wait_until

from .conftest import Online, online

Start = Callable[..., tuple[HummingFamily, Online]]


def request(text: str, version: str = "1.1", **fields: object) -> bytes:
    body = json.dumps({"input": text, "response_format": "pcm", **fields}).encode()
    return (
        f"POST /v1/audio/speech HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


@contextmanager
def connected(server: Online) -> Iterator[socket.socket]:
    with connect(server) as connection:
        yield connection


def connect(server: Online) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=PATIENCE)


def everything(connection: socket.socket) -> bytes:
    """What comes until the server hangs up, in whatever way."""
    data = b""
    try:
        while part := connection.recv(1 << 16):
            data += part
    except OSError as error:
        if not hung_up(error):
            raise
    return data


def until(connection: socket.socket, words: bytes) -> bytes:
    data = b""
    while words not in data:
        part = connection.recv(1 << 16)
        assert part, data
        data += part
    return data


def hung_up(error: OSError) -> bool:
    """Whether this error says that the other side has closed the connection.

    A reset shows where it is noticed: in sending, in receiving, or as ENOTCONN in a shutdown, which is no
    ConnectionError.
    """
    return isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN


def all_closed(family: HummingFamily, server: Online) -> None:
    """Return when nothing is being made any more."""
    assert family.hummer is not None
    for stream in family.hummer.streams:
        assert stream.closed.wait(PATIENCE)
    wait_until(lambda: not server.server.admission.active and not server.server.admission.waiting)


def test_sound_leaves_while_the_rest_is_made(humming_online: Start) -> None:
    family, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one wait two"))
        start = until(connection, b"\r\n\r\nf00\r\n" + b"")  # 1920 samples of two bytes are 0xf00
        assert b"HTTP/1.1 200" in start
        assert b"transfer-encoding: chunked" in start.lower()
        family.go.set()
        assert until(connection, b"0\r\n\r\n").count(b"\r\nf00\r\n") <= 1


def test_a_failure_in_the_middle_breaks_the_stream(humming_online: Start) -> None:
    family, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one two fail"))
        data = everything(connection)
    assert b"HTTP/1.1 200" in data
    assert b"\r\n0\r\n\r\n" not in data
    all_closed(family, server)


def test_a_failure_in_the_middle_is_an_event_and_breaks_the_stream(humming_online: Start) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one fail", stream_format="sse"))
        data = everything(connection)
    assert b'"type": "error"' in data
    assert b"speech.audio.done" not in data
    assert not data.endswith(b"0\r\n\r\n")


def test_old_http_gets_a_length_so_that_nothing_is_missed(humming_online: Start) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one two", "1.0"))
        data = everything(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert len(body) == 2 * 2 * 1920
    with connected(server) as connection:
        connection.sendall(request("one fail", "1.0"))
        assert b" 500 " in everything(connection).splitlines()[0]


def test_a_client_that_leaves_frees_its_place(humming_online: Start) -> None:
    family, server = humming_online(max_batch=1)
    with connected(server) as connection:
        connection.sendall(request("one wait two"))
        until(connection, b"\r\n\r\nf00\r\n")
    all_closed(family, server)
    family.go.set()
    with connected(server) as connection:
        connection.sendall(request("one"))
        until(connection, b"0\r\n\r\n")


def test_a_client_that_leaves_before_the_first_sound_frees_its_place(humming_online: Start) -> None:
    family, server = humming_online(max_batch=1)
    with connected(server) as connection:
        connection.sendall(request("wait one"))
        assert family.waiting.acquire(timeout=PATIENCE)
    all_closed(family, server)


def test_a_client_that_leaves_the_queue_is_forgotten(humming_online: Start) -> None:
    family, server = humming_online(max_batch=1, max_queue=1)
    with connected(server) as speaking:
        speaking.sendall(request("wait one"))
        assert family.waiting.acquire(timeout=PATIENCE)
        with connected(server) as queued:
            queued.sendall(request("two"))
            wait_until(lambda: server.server.admission.waiting == 1)
        wait_until(lambda: server.server.admission.waiting == 0)
        family.go.set()
        until(speaking, b"0\r\n\r\n")
    assert family.hummer is not None
    assert len(family.hummer.streams) == 2  # the warm-up, and the one who stayed


def test_who_does_not_read_pauses_and_stalls_nobody(
    humming_online: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "UNREAD_BYTES", 1 << 16)
    monkeypatch.setattr(speech_endpoint, "UNREAD_BYTES", 1 << 16)
    monkeypatch.setattr(speech_endpoint, "STALL_SECONDS", 10 * PATIENCE)
    family, server = humming_online(max_batch=2)
    with connected(server) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(request("endless"))
        until(lazy, b"\r\n\r\n")
        assert family.hummer is not None
        stream, frames = family.hummer.streams[-1], -1
        while frames != stream.frames:  # it goes on until every buffer on the way is full
            frames = stream.frames
            for _ in range(10):
                with connected(server) as quick:
                    quick.sendall(request("one two"))
                    until(quick, b"0\r\n\r\n")
        assert not stream.closed.is_set()
        assert stream.frames * 2 * 1920 < 30e6
    all_closed(family, server)


def test_who_never_reads_is_given_up(humming_online: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_endpoint, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(speech_endpoint, "UNREAD_BYTES", 1 << 16)
    family, server = humming_online(max_batch=1)
    with connected(server) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(request("endless"))
        wait_until(lambda: family.hummer is not None and len(family.hummer.streams) == 2)  # with the warm-up
        all_closed(family, server)


def test_a_speech_that_takes_too_long_in_its_middle_breaks(humming_online: Start) -> None:
    family, server = humming_online(timeout=10 * PATIENCE)
    with connected(server) as connection:
        connection.sendall(request("one wait"))
        data = until(connection, b"\r\n\r\nf00\r\n")
        server.put_forward(10 * PATIENCE)
        data += everything(connection)
    assert b"HTTP/1.1 200" in data
    assert not data.endswith(b"0\r\n\r\n")
    all_closed(family, server)


def test_a_speech_that_takes_too_long_in_its_middle_is_an_event(humming_online: Start) -> None:
    family, server = humming_online(timeout=10 * PATIENCE)
    with connected(server) as connection:
        connection.sendall(request("one wait", stream_format="sse"))
        data = until(connection, b"\n\n")
        server.put_forward(10 * PATIENCE)
        data += everything(connection)
    assert b'"type": "error"' in data
    assert b"took longer than 1800 s" in data
    assert not data.endswith(b"0\r\n\r\n")
    all_closed(family, server)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    ],
    ids=range(7),
)
def test_garbage_on_the_line_ends_one_connection(humming_online: Start, data: bytes) -> None:
    _, server = humming_online()
    with connected(server) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            everything(connection)
        except OSError as error:
            if not hung_up(error):
                raise
    with connected(server) as connection:
        connection.sendall(request("one"))
        until(connection, b"0\r\n\r\n")


def test_a_body_that_does_not_come_is_not_waited_for(
    humming_online: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ggtts.core.server.bodies.BODY_SECONDS", 0.1)
    _, server = humming_online()
    with connected(server) as connection:
        connection.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        data = until(connection, b"within 0.1 s")
    assert b" 408 " in data.splitlines()[0]


def test_a_server_that_ends_lets_answers_finish() -> None:
    family = HummingFamily()
    with online(family, grace=PATIENCE) as server:
        connection = connect(server)
        connection.sendall(request("one wait two"))
        until(connection, b"\r\n\r\nf00\r\n")
        threading.Timer(0.3, family.go.set).start()
    with connection:
        assert everything(connection).endswith(b"0\r\n\r\n")


def test_a_server_that_ends_cuts_what_does_not() -> None:
    family = HummingFamily()
    with online(family, grace=1) as server:
        connection = connect(server)
        connection.sendall(request("one wait two"))
        until(connection, b"\r\n\r\nf00\r\n")
    with connection:
        assert not everything(connection).endswith(b"0\r\n\r\n")
    assert family.hummer is not None
    assert not family.hummer.open


def test_events_can_be_read_as_they_come(humming_online: Start) -> None:
    family, server = humming_online()
    with connected(server) as connection:
        connection.sendall(request("one wait two", stream_format="sse"))
        first = until(connection, b"\n\n")
        event = json.loads(first.partition(b"data: ")[2].partition(b"\n\n")[0])
        assert len(base64.b64decode(event["audio"])) == 3840
        family.go.set()
        assert b"speech.audio.done" in until(connection, b"0\r\n\r\n")


def test_a_server_that_cannot_start_tells_why() -> None:
    from ggtts.core.errors import EngineError
    from ggtts.core.server.app import Server
    from ggtts.core.server.options import ServerOptions
    from ggtts.core.server.serving import listen, serve

    class Heavy(HummingFamily):
        def scheduler(self, places: int) -> object:
            raise EngineError("not enough memory for 8 at a time")

    with pytest.raises(EngineError, match="not enough memory"):
        serve(Server(Heavy(), ServerOptions()).app, listen("127.0.0.1", 0), grace=1)
