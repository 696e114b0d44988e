#!/usr/bin/env python3
"""Print the whole table: each stage of both families, its goal, what other programs need, and the machine's limit.

    python benchmarks/run.py --models models/random
    python benchmarks/run.py --peer peer/bin/python --official omni-peer/bin/python --threads 2
    python benchmarks/run.py --only qwen-q8_0 busy --frames 50 --repeat 1
    python benchmarks/run.py --profile

The columns: ggtts; the PyPI package realtimetts-qwen-native-cpu (a build of the C++ program) with --peer; the official
package of OmniVoice (PyTorch) with --official, each run by the Python of its own venv; the goal; how many times as much
the others need; and what this machine would take at its measured best (least_work.py, machine.py). Groups of rows whose
models are missing are left out, with a line that says how to make them. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from machine import Machine
from stages import GROUPS, Group, Options, Row, Unavailable

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Parse the options, measure group by group, print the table."""
    options = parsed()
    if options.profile:
        profile(options)
        return
    if os.getloadavg()[0] > 0.5:
        tell(f"this machine is busy (load {os.getloadavg()[0]:.2f}): the numbers will not mean much")
    machine = None if options.skip_machine else Machine.measure(options.threads)
    groups = [group for group in GROUPS if group.name in options.only and group.name not in options.skip]
    rows = list(measured(groups, options.measured(machine)))
    if not rows:
        raise SystemExit("nothing was measured")
    print(f"{machine or 'machine not measured'}\n\n{table(rows)}")


def parsed() -> argparse.Namespace:
    """Return the command line."""
    names = [group.name for group in GROUPS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--models", type=Path, default=Path("models/random"), help="folder of the random models"
    )
    parser.add_argument("--peer", help="Python of a venv that has realtimetts-qwen-native-cpu")
    parser.add_argument("--official", help="Python of a venv that has the package omnivoice")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--frames", type=int, default=125, help="frames of Qwen3-TTS, 80 ms each (default 125)"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of OmniVoice's speech (default 6)")
    parser.add_argument(
        "--codec-seconds", type=float, default=10.0, help="for the codecs' commands (default 10)"
    )
    parser.add_argument("--steps", type=int, default=8, help="of OmniVoice (default 8)")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs of each (default 3)")
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="GROUP", help=", ".join(names)
    )
    parser.add_argument("--skip", nargs="+", choices=names, default=[], metavar="GROUP")
    parser.add_argument("--skip-machine", action="store_true", help="do not measure the machine itself")
    parser.add_argument(
        "--profile", action="store_true", help="show where time goes instead, operation by operation"
    )
    return parser.parse_args(namespace=Options())


def measured(groups: Iterable[Group], options: Options) -> Iterator[Row]:
    """Yield the rows of all groups that can be measured; say why others cannot."""
    for group in groups:
        tell(f"{group.name}, load before {os.getloadavg()[0]:.2f}")
        try:
            yield from group.measure(options)
        except Unavailable as error:
            tell(f"what is left of {group.name} is not measured: {error}")


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    heads = (
        "",
        "ggtts",
        "peer",
        "official",
        "goal",
        "met",
        "peer / ggtts",
        "official / ggtts",
        "machine at best",
    )
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        others = [shown(value) for value in (row.peer, row.official)]
        ratios = [f"{value / row.ours:.2f}" if value else "-" for value in (row.peer, row.official)]
        goal = "-" if row.goal is None else f"{row.goal:g}"
        met = "-" if row.goal is None else "yes" if row.ours <= row.goal else "no"
        cells = (row.label, shown(row.ours), *others, goal, met, *ratios, shown(row.bound))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """Return a number as the table has it."""
    return "-" if value is None else f"{value:.4g}"


def profile(options: Options) -> None:
    """Run the profiles of both families on the models that are here."""
    scripts = (
        ("qwen_profile.py", (options.talker("Q8_0"), options.codec)),
        ("omnivoice_profile.py", (options.base("Q8_0"),)),
    )
    for script, files in scripts:
        missing = [path for path in files if not path.is_file()]
        if missing:
            tell(f"{script} is left out: {missing[0]} is missing")
            continue
        print(f"\n## {script}\n", flush=True)
        threads = ("--threads", str(options.threads))
        subprocess.run([sys.executable, HERE / script, *map(str, files), *threads], check=True)


def tell(line: str) -> None:
    """Say something beside the table."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
