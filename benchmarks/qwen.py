#!/usr/bin/env python3
"""Time Qwen3-TTS stage by stage for a pair of GGUF files, and beside the C++ program when it is installed.

    python benchmarks/qwen.py TALKER.gguf CODEC.gguf --frames 64 --peer peer/bin/python

Every program runs in a process of its own, one after the other; medians over the runs are printed as a Markdown table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from measurement import LABELS, Measurement, medians, parse
from texts import SENTENCE

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Parse the options, run the programs, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("talker", help="talker GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--frames", type=int, default=64, help="frames of 80 ms to generate (default 64)")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", help="device of ggtts: cpu, cuda0, ...")
    parser.add_argument("--peer", help="Python of a venv that has realtimetts-qwen-native-cpu")
    options = parser.parse_args()

    common = [options.talker, options.codec, "--text", options.text, "--frames", str(options.frames)]
    common += ["--repeat", str(options.repeat), "--threads", str(options.threads)]
    device = ["--device", options.device] if options.device else []
    ours = run([sys.executable, HERE / "run_ggtts.py", *common, *device])
    peer = run([options.peer, HERE / "run_peer.py", *common]) if options.peer else None
    print(f"{Path(options.talker).name}, {options.frames} frames, {options.threads} threads\n")
    print(table(ours, peer))


def run(command: list[str | Path]) -> Measurement:
    """Run a program and return the medians of what it measured."""
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    measurements = parse(result.stdout.splitlines())
    if result.returncode != 0 or not measurements:
        raise SystemExit(f"{Path(command[1]).name} failed")
    return medians(measurements)


def table(ours: Measurement, peer: Measurement | None) -> str:
    """Return a Markdown table; a ratio above 1 says how many times ggtts needs less than the peer."""
    heads = ["stage", "ggtts"] if peer is None else ["stage", "ggtts", "peer", "peer / ggtts"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, label in LABELS.items():
        value = getattr(ours, name)
        cells = [label, f"{value:.4g}"]
        if peer is not None:
            other = getattr(peer, name)
            cells += [f"{other:.4g}", f"{other / value:.2f}" if value else "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
