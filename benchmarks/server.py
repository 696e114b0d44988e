#!/usr/bin/env python3
"""Time `tts-server` with 1, 4, 8 and 16 clients: how long they wait for sound, and how much of it all of them get.

    python benchmarks/server.py
    python benchmarks/server.py TALKER.gguf CODEC.gguf --frames 50

Without files it measures the packaged demo voice. Each client asks again as soon as it has an answer; with `--rate`,
so many requests a second come besides, at random moments, each from a client of its own. With models of random weights
`--frames` says how long a speech is; they never end by themselves.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from texts import SENTENCE

BYTES_PER_SECOND = 48_000
"""Of samples of 16 bits at 24 kHz."""
GOAL_CLIENTS, GOAL_RATIO = 8, 3.0
"""So many clients are to get so many times the sound of one, on two cores."""
STREAM = 60
"""So many requests come at random."""
GOAL_FIRST_BYTE = 0.35
"""Seconds that a lone client waits, with a 0.6B model in Q4_K_M."""


@dataclass(frozen=True)
class Answer:
    """One speech.

    Attributes:
        first: seconds to its first byte.
        total: seconds to its last one.
        audio: seconds of sound.
    """

    first: float
    total: float
    audio: float


def main() -> None:
    """Parse the options, run the server, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="GGUF", help="talker and codec; none: demo")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--voice", default="default")
    parser.add_argument("--frames", type=int, default=0, help="most frames of a speech (default: as it ends)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--requests", type=int, default=0, help="per client (default: 8 alone, else 3)")
    parser.add_argument("--rate", type=float, nargs="+", default=[], help="requests a second, 60 of them")
    parser.add_argument("--max-batch", type=int, default=8)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--simulated", action="store_true", help="on a GPU that is not there: simulated_device.py"
    )
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("name a talker and a codec, or neither")
    with server(options) as address:
        ask(address, options, 0)
        print("| clients | first byte, s: median | worst | audio s per s | ratio to one | RTF of a speech |")
        print("|---|---|---|---|---|---|")
        rates: dict[int, float] = {}
        for count in options.clients:
            rates[count] = measure(address, options, count, rates.get(1))
        for rate in options.rate:
            measure_stream(address, options, rate, rates.get(1))
    judge(rates)


@contextmanager
def server(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Run the server on a free port; yield its address once it is warm."""
    simulated = [str(Path(__file__).with_name("simulated_device.py"))] if options.simulated else []
    arguments = [
        sys.executable,
        *simulated,
        "-m",
        "ggtts.cli.tts_server",
        "--port",
        "0",
        "--max-batch",
        str(options.max_batch),
    ]
    if options.files:
        arguments += ["--model", str(options.files[0]), "--codec", str(options.files[1])]
    if options.threads:
        arguments += ["--threads", str(options.threads)]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    log: list[str] = []
    try:
        while not log or "ready" not in log[-1]:
            line = process.stderr.readline()
            if not line:
                sys.exit("the server did not start:\n" + "".join(log))
            log.append(line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        found = re.search(r"listening on http://([^:]+):(\d+)", "".join(log))
        assert found
        yield found[1], int(found[2])
    finally:
        process.terminate()
        process.wait()


def measure(
    address: tuple[str, int], options: argparse.Namespace, clients: int, alone: float | None
) -> float:
    """Let so many clients ask at once; print a row, and return the seconds of audio per second.

    `alone` is what one client got, where that was measured.
    """
    each = options.requests or (8 if clients == 1 else 3)
    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda seed: ask(address, options, seed), range(clients * each)))
    return told(str(clients), answers, time.perf_counter() - begin, alone)


def measure_stream(
    address: tuple[str, int], options: argparse.Namespace, rate: float, alone: float | None
) -> None:
    """Let STREAM requests come at random, `rate` a second; print a row."""
    chance = random.Random(1)
    begin = time.perf_counter()
    with ThreadPoolExecutor(STREAM) as pool:
        asked = []
        for seed in range(STREAM):
            asked.append(pool.submit(ask, address, options, seed))
            time.sleep(chance.expovariate(rate))
        answers = [answer.result() for answer in asked]
    told(f"{rate:g} a second", answers, time.perf_counter() - begin, alone)


def told(name: str, answers: list[Answer], seconds: float, alone: float | None) -> float:
    """Print a row, and return the seconds of audio per second."""
    rate = sum(answer.audio for answer in answers) / seconds
    waits = [answer.first for answer in answers]
    ratio = rate / (alone or rate)
    factor = median(answer.total / answer.audio for answer in answers)
    print(
        f"| {name} | {median(waits):.3f} | {max(waits):.3f} | {rate:.2f} | {ratio:.2f} | {factor:.2f} |",
        flush=True,
    )
    return rate


def ask(address: tuple[str, int], options: argparse.Namespace, seed: int) -> Answer:
    """Ask for a speech and read it to its end."""
    body = {"input": options.text, "voice": options.voice, "response_format": "pcm", "seed": seed}
    if options.frames:
        body["max_new_tokens"] = options.frames
    connection = HTTPConnection(*address, timeout=600)
    begin = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", json.dumps(body))
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"the server answers {answer.status}: {answer.read().decode()}")
    size = len(answer.read(1))
    first = time.perf_counter() - begin
    size += len(answer.read())
    connection.close()
    return Answer(first, time.perf_counter() - begin, size / BYTES_PER_SECOND)


def judge(rates: dict[int, float]) -> None:
    """Print how the numbers compare with what was aimed at."""
    if {1, GOAL_CLIENTS} <= rates.keys():
        ratio = rates[GOAL_CLIENTS] / rates[1]
        print(f"\n{GOAL_CLIENTS} clients get {ratio:.2f} times what one gets (goal {GOAL_RATIO:g})")
    print(f"a lone client is to wait less than {GOAL_FIRST_BYTE:g} s with a 0.6B model in Q4_K_M")


if __name__ == "__main__":
    main()
