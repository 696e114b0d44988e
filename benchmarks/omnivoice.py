#!/usr/bin/env python3
"""Time OmniVoice stage by stage for language models and a codec, and beside the official package when it is installed.

    python benchmarks/omnivoice.py BASE.gguf [BASE.gguf ...] CODEC.gguf
    python benchmarks/omnivoice.py BASE.gguf CODEC.gguf --peer peer/bin/python --checkpoint models/random/OmniVoice

Every program runs in a process of its own, one after the other; medians over the runs are printed as a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from omnivoice_measurement import labels, medians
from omnivoice_options import measured_options, passed_on

HERE = Path(__file__).resolve().parent
DTYPES = ("float32", "bfloat16")

Column = dict[str, float]


def main() -> None:
    """Parse the options, run the programs, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bases", nargs="+", metavar="base", help="language model GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--device", help="device of ggtts: cpu, cuda0, ...")
    parser.add_argument("--peer", help="Python of a venv that has the package omnivoice")
    parser.add_argument("--checkpoint", type=Path, help="folder with the checkpoint for the peer")
    parser.add_argument(
        "--peer-dtype", choices=DTYPES, action="append", help="may be repeated (default: float32)"
    )
    measured_options(parser)
    options = parser.parse_args()
    if options.peer and not options.checkpoint:
        parser.error("--peer needs --checkpoint")

    device = ["--device", options.device] if options.device else []
    ours = {
        Path(base).stem: run(
            [sys.executable, HERE / "run_omnivoice.py", base, options.codec, *device], options
        )
        for base in options.bases
    }
    peers = {}
    if options.peer:
        runner = [options.peer, HERE / "run_omnivoice_peer.py", options.checkpoint]
        for dtype in options.peer_dtype or DTYPES[:1]:
            peers[f"official, {dtype}"] = run([*runner, "--dtype", dtype], options)
    print(f"{options.seconds:g} s of speech, {options.threads} threads\n")
    print(table(labels(options.few_steps, options.many_steps), ours, peers))


def run(command: Sequence[str | Path], options: argparse.Namespace) -> Column:
    """Run a program and return the medians of what it measured."""
    busy = os.getloadavg()[0]
    print(f"{Path(command[1]).name} {Path(command[2]).name}, load before {busy:.2f}", file=sys.stderr)
    arguments = [*map(str, command), *passed_on(options)]
    result = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    column = medians(result.stdout.splitlines())
    if result.returncode != 0 or not column:
        raise SystemExit(f"{Path(command[1]).name} failed")
    print({name: round(value, 4) for name, value in column.items()}, file=sys.stderr)
    return column


def table(rows: dict[str, str], ours: dict[str, Column], peers: dict[str, Column]) -> str:
    """Return a Markdown table of these rows.

    Behind each number of a peer stands how many times as much it is as that of ggtts, model by model.
    """
    heads = ["stage", *ours, *peers]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, label in rows.items():
        own = [column[name] for column in ours.values()]
        cells = [label, *(f"{value:.4g}" for value in own)]
        for column in peers.values():
            ratios = " / ".join(f"{column[name] / value:.2f}x" for value in own)
            cells.append(f"{column[name]:.4g} ({ratios})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
