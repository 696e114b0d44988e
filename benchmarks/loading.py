#!/usr/bin/env python3
"""Time how long a listener waits: from the start of the process to the first sample, and what that time goes to.

    python benchmarks/loading.py
    python benchmarks/loading.py TALKER.gguf CODEC.gguf --speaker vivian

Without files it measures the packaged demo voice. The wall clock is that of a shell: the program is started anew for
each run, and the first byte of audio is waited for on a pipe. The first run fills the page cache, compiles the byte
code that an installation has, and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from texts import SENTENCE

GOALS = {"demo voice": 1.0, "files": 2.0}
"""Seconds to the first sample with a warm page cache: of the demo voice, and of a 0.6B pair in Q8_0."""


def main() -> None:
    """Parse the options and measure; or, called by `stages`, do what is measured."""
    if len(sys.argv) > 1 and sys.argv[1] == "--stages":
        print_stages(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="GGUF", help="talker and codec; none: demo")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--speaker", help="for models with built-in voices")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=5, help="measured runs (default 5)")
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("name a talker and a codec, or neither")
    with TemporaryDirectory() as byte_code:
        measure(options, installed_environment(Path(byte_code)))


def measure(options: argparse.Namespace, environment: dict[str, str]) -> None:
    """Run both measurements, print the tables."""
    kind = "files" if options.files else "demo voice"
    waits = [first_sample(options, environment) for _ in range(options.repeat + 1)]
    print(f"first sample of the {kind}, seconds after the start of the process (goal {GOALS[kind]:g}):\n")
    print("| first run | median | fastest | slowest |\n|---|---|---|---|")
    print(
        "| "
        + " | ".join(
            f"{value:.2f}" for value in (waits[0], median(waits[1:]), min(waits[1:]), max(waits[1:]))
        )
        + " |\n"
    )
    runs = [stages(options, environment) for _ in range(options.repeat)]
    print("| what it goes to | ms |\n|---|---|")
    for name in runs[0]:
        print(f"| {name} | {1000 * median(run[name] for run in runs):.0f} |")


def installed_environment(byte_code: Path) -> dict[str, str]:
    """Return an environment in which Python keeps byte code, as an installation does, in a folder of its own."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(byte_code)}


def first_sample(options: argparse.Namespace, environment: dict[str, str]) -> float:
    """Start the command, and return the seconds to the first byte of audio."""
    command = [
        sys.executable,
        "-m",
        "ggtts.cli.qwen_tts",
        "-o",
        "-",
        "--format",
        "s16",
        "--quiet",
        "--seed",
        "1",
    ]
    if options.files:
        command += ["--model", str(options.files[0]), "--codec", str(options.files[1])]
    for flag in ("speaker", "threads"):
        if getattr(options, flag) is not None:
            command += [f"--{flag}", str(getattr(options, flag))]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin
    assert process.stdout
    process.stdin.write(options.text.encode())
    process.stdin.close()
    if not os.read(process.stdout.fileno(), 1):
        raise SystemExit(f"{' '.join(command)} made no sound")
    seconds = time.perf_counter() - started
    process.stdout.close()
    process.wait()
    return seconds


def stages(options: argparse.Namespace, environment: dict[str, str]) -> dict[str, float]:
    """Return the seconds of each stage, from a process of its own."""
    request = {
        "files": [str(path) for path in options.files],
        "text": options.text,
        "speaker": options.speaker,
        "threads": options.threads,
        "started": time.time(),
    }
    result = subprocess.run(
        [sys.executable, __file__, "--stages", json.dumps(request)],
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
    )
    found: dict[str, float] = json.loads(result.stdout)
    return found


def print_stages(request: dict[str, object]) -> None:
    """Do what the command does, and print the seconds of each stage as JSON."""
    marks = [("start of Python", time.time())]

    def mark(name: str) -> None:
        marks.append((name, time.time()))

    from ggtts.cli import qwen_tts  # what the command itself imports

    mark("import of the command")
    from ggtts import Sampling, SpeechRequest, demo_paths
    from ggtts.core.engine import Engine
    from ggtts.core.qwen.model import QwenTTS
    from ggtts.core.text.tokenizer import TextTokenizer

    assert qwen_tts
    mark("import of the engine and the model")
    talker_path, codec_path = request["files"] or demo_paths()  # type: ignore[misc]
    engine = Engine(None, request["threads"])  # type: ignore[arg-type]
    mark("device")
    talker, codec = engine.weights(talker_path), engine.weights(codec_path)
    assert talker.metadata
    assert codec.metadata
    mark("headers of both files")
    model = QwenTTS(engine, talker, codec)
    mark("model (tokenizer, codec weights)")
    speaker = request["speaker"] or next(iter(model.speakers), None)
    stream = model.stream(SpeechRequest(str(request["text"]), speaker=speaker, sampling=Sampling(seed=1)))  # type: ignore[arg-type]
    next(iter(stream))
    mark("prompt, first frame, first samples")
    stream.close()
    before = float(request["started"])  # type: ignore[arg-type]
    seconds = {}
    for name, moment in marks:
        seconds[name] = moment - before
        before = moment
    started = time.time()
    TextTokenizer.from_metadata(talker.metadata)
    print(json.dumps(seconds | {"(of the model: tokenizer)": time.time() - started}))


if __name__ == "__main__":
    main()
