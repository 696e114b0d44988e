#!/usr/bin/env python3
"""Measure how much more is spoken when several lines are spoken at once: seconds of audio per second.

    python benchmarks/batching.py
    python benchmarks/batching.py TALKER.gguf CODEC.gguf --frames 32

Without files it measures the packaged demo voice. The same lines are spoken every time, 1, 2, 4, 8 of them at once, in
one process, and what a step of the batch spends its time with is shown. Each number of the first table is the median of
rounds in which all of them take turns, so that a machine that becomes slower becomes slower for all.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measurement import peak_memory_mb
from step_times import HEADER, StepTimes, watched
from texts import LONGER_TEXT

from ggtts import QwenTTS, Sampling, SpeechRequest, demo_paths

LINES = 8
"""How many are spoken, unless more are to be spoken at once."""


@dataclass(frozen=True)
class Throughput:
    """All lines, spoken so many at once."""

    audio_seconds: float
    seconds: float
    first_audio_seconds: float
    """From the beginning to the first audio of any line."""
    last_audio_seconds: float
    """The longest that a line waits for its first audio, from its own beginning."""
    times: StepTimes

    @property
    def speed(self) -> float:
        """Seconds of audio per second."""
        return self.audio_seconds / self.seconds


def main() -> None:
    """Parse the options, measure, print the table."""
    logging.getLogger("ggtts").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="GGUF", help="talker and codec; none: demo")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--frames", type=int, help="frames of each line (default: as many as the text takes)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", help="cpu, cuda0, ... (default: the best)")
    parser.add_argument(
        "--overlap",
        action=argparse.BooleanOptionalAction,
        help="decode while frames are made (default: where that is faster)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="measured rounds, after one that warms up")
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("name a talker and a codec, or neither")
    files = options.files or demo_paths()
    with QwenTTS.open(
        *files, threads=options.threads, device=options.device, overlap=options.overlap
    ) as model:
        rounds = [
            {count: measured(model, options.frames, count) for count in options.at_once}
            for _ in range(options.repeat + 1)
        ]
    for line in table(rounds[1:]):
        print(line)
    print(f"\nWhere the time of a step goes, the last round:\n\n{HEADER}")
    for count in options.at_once:
        print(rounds[-1][count].times.row(count))
    if any(one.times.beside for one in rounds[-1].values()):
        print("\nThe codec works meanwhile: it is no part of a step.")


def request(model: QwenTTS, number: int, frames: int | None) -> SpeechRequest:
    """Return one of the lines."""
    speaker = next(iter(model.speakers), None)
    sampling = Sampling(seed=number)
    if frames is None:
        return SpeechRequest(LONGER_TEXT, speaker=speaker, sampling=sampling, split=False)
    return SpeechRequest(
        LONGER_TEXT, speaker=speaker, sampling=sampling, max_frames=frames, guard=False, split=False
    )


def measured(model: QwenTTS, frames: int | None, at_once: int) -> Throughput:
    """Speak all lines."""
    requests = [request(model, number, frames) for number in range(max(LINES, at_once))]
    with watched() as times:
        started = time.perf_counter()
        speeches = list(model.speak_many(requests, parallel=at_once))
        seconds = time.perf_counter() - started
    waits = [speech.timings.first_audio_seconds for speech in speeches]
    audio = sum(speech.seconds for speech in speeches)
    return Throughput(audio, seconds, min(waits), max(waits), times)


def table(rounds: list[dict[int, Throughput]]) -> Iterator[str]:
    """Yield the rows: medians of all rounds, and the ratio to the first row."""
    yield "| at once | seconds of audio per second | ratio | first audio, ms | of the last line |"
    yield "|---|---|---|---|---|"
    base: float | None = None
    for count in rounds[0]:
        speed = median(one[count].speed for one in rounds)
        base = base or speed
        first = 1000 * median(one[count].first_audio_seconds for one in rounds)
        last = 1000 * median(one[count].last_audio_seconds for one in rounds)
        yield f"| {count} | {speed:.2f} | {speed / base:.2f} | {first:.0f} | {last:.0f} |"
    yield f"\npeak memory {peak_memory_mb():.0f} MB, {LINES} lines or as many as are spoken at once"


if __name__ == "__main__":
    main()
