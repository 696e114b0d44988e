"""Many clients at once, of every temper: nothing leaks, no place is lost, and everybody hears what they would alone.

GGTTS_SOAK=500 makes it as many requests; a few dozen otherwise.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ggtts._native")

from ggtts.core.opening import open_model
from ggtts.core.server.encoding import RESPONSE_FORMATS, open_encoder
from ggtts.core.server.families import family_of
from support.device import ON_CPU
from support.patience import PATIENCE, eventually

from .conftest import Online, online

REQUESTS = int(os.environ.get("GGTTS_SOAK", "40"))
CLIENTS = 12
TEXTS = ("Hello.", "One two three.", "Good morning to you.", "This is a test of the server.")
VOICES = ("adam", "eva")
SEEDS = 2
FORMATS = ("pcm", "wav", "mp3", "flac")
POOLS = ("AnyIO worker thread", "asyncio_", "ggtts-answer")
"""What the threads of pools are called: pools are bounded, and grow and shrink with what is asked at once."""


@dataclass(frozen=True)
class Wish:
    """What a client asks for."""

    text: str
    voice: str
    seed: int
    kind: str
    events: bool = False

    @property
    def body(self) -> bytes:
        fields: dict[str, Any] = {
            "input": self.text,
            "voice": self.voice,
            "seed": self.seed,
            "response_format": self.kind,
        }
        return json.dumps(fields | ({"stream_format": "sse"} if self.events else {})).encode()


def alone(model: Any, text: str, voice: str, seed: int) -> Iterator[tuple[Wish, bytes]]:
    """What the model says to these wishes when it speaks for nobody else."""
    speech = model.speak(text, speaker=voice, seed=seed)
    for name in FORMATS:
        kind = RESPONSE_FORMATS[name]
        encoder = open_encoder(kind, speech.sample_rate, whole=not kind.streams)
        yield Wish(text, voice, seed, name), encoder.write(speech.samples) + encoder.close()


def asked(server: Online, body: bytes) -> tuple[HTTPConnection, HTTPResponse]:
    connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    return connection, connection.getresponse()


class Crowd:
    """Clients that behave well, badly, or not at all."""

    def __init__(self, server: Online, expected: Callable[[Wish], bytes]) -> None:
        self._server = server
        self._expected = expected
        self.outcomes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def one(self, number: int) -> None:
        """Do one of many things, the same for the same number."""
        dice = random.Random(number)
        wish = Wish(
            dice.choice(TEXTS),
            dice.choice(VOICES),
            dice.randrange(SEEDS),
            dice.choice(FORMATS),
            dice.random() < 0.2,
        )
        act = dice.choices(
            [self.listen, self.leave_soon, self.leave_at_once, self.ask_nonsense], [6, 2, 1, 1]
        )[0]
        outcome = act(wish)
        with self._lock:
            self.outcomes[outcome] += 1

    def listen(self, wish: Wish) -> str:
        """Hear all of it; come back later if the queue is full."""
        while True:
            connection, answer = asked(self._server, wish.body)
            try:
                data = answer.read()
            except IncompleteRead as broken:
                raise AssertionError("an answer broke off") from broken
            finally:
                connection.close()
            if answer.status != 429:
                break
            with self._lock:
                self.outcomes["sent back"] += 1
            threading.Event().wait(0.05)
        assert answer.status == 200, data
        if wish.events:
            events = [json.loads(part.removeprefix(b"data: ")) for part in data.strip().split(b"\n\n")]
            assert events[-1]["type"] == "speech.audio.done"
            data = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
        if ON_CPU:  # elsewhere samples are rounded by how a sequence is cut
            assert data == self._expected(wish), wish
        return "heard"

    def leave_soon(self, wish: Wish) -> str:
        """Leave after the first byte."""
        connection, answer = asked(self._server, wish.body)
        answer.read(1)
        connection.close()
        return "left"

    def leave_at_once(self, wish: Wish) -> str:
        """Ask, and do not wait for an answer."""
        connection = HTTPConnection(self._server.host, self._server.port, timeout=PATIENCE)
        connection.request("POST", "/v1/audio/speech", wish.body, {"Content-Type": "application/json"})
        connection.close()
        return "left"

    def ask_nonsense(self, wish: Wish) -> str:
        """Ask for what cannot be."""
        connection, answer = asked(self._server, wish.body.replace(b"input", b"output"))
        assert answer.status == 400
        assert b"input is missing" in answer.read()
        connection.close()
        return "refused"


def test_a_crowd_leaves_nothing_behind() -> None:
    with open_model(threads=2) as model:
        known: dict[Wish, bytes] = {}
        for text, voice, seed in product(TEXTS, VOICES, range(SEEDS)):
            known |= alone(model, text, voice, seed)
        with online(family_of(model), max_batch=4, max_queue=5) as server:
            crowd = Crowd(server, lambda wish: known[Wish(wish.text, wish.voice, wish.seed, wish.kind)])
            _run(crowd, range(20))
            before = _resources()
            _run(crowd, range(20, 20 + REQUESTS))
            # Sockets and threads of clients that have left are on their way out for as long as the machine is busy.
            assert eventually(lambda: _is_no_more(_resources(), before) and not _active(server))
    assert crowd.outcomes["heard"] > REQUESTS / 3
    assert crowd.outcomes["left"] > 0


def _is_no_more(after: tuple[int, int, int], before: tuple[int, int, int]) -> bool:
    """Whether nothing has grown with the number of requests: open files, threads, resident memory."""
    return after[0] <= before[0] + 5 and after[1] <= before[1] + 2 and after[2] <= before[2] + 60e6


def _run(crowd: Crowd, numbers: range) -> None:
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(crowd.one, number) for number in numbers]:
            done.result()


def _active(server: Online) -> int:
    """How many are spoken for, or wait for that."""
    return server.server.admission.active + server.server.admission.waiting


def _resources() -> tuple[int, int, int]:
    """Open files, threads outside of pools, and bytes of memory of this process."""
    gc.collect()
    threads = sum(not thread.name.startswith(POOLS) for thread in threading.enumerate())
    files, memory = Path("/proc/self/fd"), Path("/proc/self/statm")
    if not files.is_dir():  # not Linux
        return 0, threads, 0
    pages = int(memory.read_text().split()[1])
    return len(list(files.iterdir())), threads, pages * os.sysconf("SC_PAGE_SIZE")
