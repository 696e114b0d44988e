#!/usr/bin/env python3
"""Show what loading and speaking cost in resident memory, against what the files and the caches account for.

    python benchmarks/memory.py
    python benchmarks/memory.py TALKER.gguf CODEC.gguf --frames 256 --repeat 5

Without files it measures the packaged demo voice. The peak should stay within the size of both files, the key/value
cache and 200 MB, and not grow from one utterance to the next. Linux only: the numbers are the kernel's.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from texts import SENTENCE

if TYPE_CHECKING:
    from ggtts import QwenTTS

ALLOWANCE = 200e6
"""Bytes for the interpreter, the libraries and activations."""
STATUS = Path("/proc/self/status")
CACHE_BYTES = {"f16": 2, "f32": 4}


@dataclass(frozen=True)
class Memory:
    """Resident memory of this process in bytes: `anonymous` is its own, `mapped` are pages of files."""

    stage: str
    peak: int
    anonymous: int
    mapped: int

    @classmethod
    def now(cls, stage: str) -> Memory:
        """Ask the kernel."""
        lines = (line.partition(":") for line in STATUS.read_text().splitlines())
        values = {name: value.split() for name, _, value in lines}
        sizes = [int(values[name][0]) * 1024 for name in ("VmHWM", "RssAnon", "RssFile")]
        return cls(stage, *sizes)

    def __str__(self) -> str:
        cells = (f"{size / 1e6:.1f}" for size in (self.peak, self.anonymous, self.mapped))
        return f"| {self.stage} | {' | '.join(cells)} |"


def main() -> None:
    """Parse the options, load, speak, and print one row after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="GGUF", help="talker and codec; none: demo")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--speaker", help="for models with built-in voices")
    parser.add_argument("--frames", type=int, default=128, help="most frames of 80 ms (default 128)")
    parser.add_argument("--repeat", type=int, default=3, help="utterances (default 3)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--kv-type", choices=CACHE_BYTES, default="f16")
    options = parser.parse_args()
    if not STATUS.exists():
        raise SystemExit(f"{STATUS} is needed")
    if len(options.files) not in (0, 2):
        parser.error("name a talker and a codec, or neither")
    print("| after | peak MB | own MB | mapped MB |\n|---|---|---|---|")
    print(Memory.now("start of Python"))
    talker, codec, caches = measure(options)
    print(verdict(Memory.now("").peak, talker.stat().st_size + codec.stat().st_size, caches))


def measure(options: argparse.Namespace) -> tuple[Path, Path, int]:
    """Load and speak; return the two files and the bytes of the key/value cache."""
    from ggtts import QwenTTS, Sampling, SpeechRequest, demo_paths

    talker, codec = options.files or demo_paths()
    print(Memory.now("import"))
    with QwenTTS.open(talker, codec, threads=options.threads, kv_type=options.kv_type) as model:
        print(Memory.now("open"))
        speaker = options.speaker or next(iter(model.speakers), None)
        sampling = Sampling(seed=1)
        request = SpeechRequest(options.text, speaker=speaker, sampling=sampling, max_frames=options.frames)
        for number in range(1, options.repeat + 1):
            frames = model.speak(request).frames
            print(Memory.now(f"utterance {number}, {frames} frames"))
        return talker, codec, cache_bytes(model, frames, options.kv_type)


def cache_bytes(model: QwenTTS, frames: int, kv_type: str) -> int:
    """Return the size of the talker's keys and values for an utterance; its prompt is about as long as its text."""
    sizes = model.info.talker
    positions = frames + 128
    return 2 * sizes.layers * sizes.kv_heads * sizes.head_dim * positions * CACHE_BYTES[kv_type]


def verdict(peak: int, files: int, caches: int) -> str:
    """Say how the peak compares with what it may be."""
    limit = files + caches + ALLOWANCE
    kept = "within" if peak <= limit else "BEYOND"
    parts = f"files {files / 1e6:.1f} + cache {caches / 1e6:.1f} + {ALLOWANCE / 1e6:.0f}"
    return f"\npeak {peak / 1e6:.1f} MB, {kept} {limit / 1e6:.1f} MB ({parts})"


if __name__ == "__main__":
    main()
