"""What a command does before it answers `--help`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from support.patience import PATIENCE

MOST_STEPS = 500_000
"""Calls and returns of functions before a quick answer. A machine of 2024 takes 0.09 s for a third of them, and people
notice a pause from 0.3 s on; unlike the time, their number is the same on any machine, whatever else it does."""

_COUNTED_HELP = """
import sys
from importlib import import_module
steps = 0
def count(frame, event, argument):
    global steps
    steps += 1
module, sys.argv = sys.argv[1], [sys.argv[1], "--help"]
sys.setprofile(count)
try:
    import_module(module).main()
finally:
    sys.setprofile(None)
    print(steps, *sys.modules, file=sys.stderr)
"""


@dataclass(frozen=True)
class Help:
    """How a command answers `--help`.

    Attributes:
        text: what it prints.
        steps: calls and returns of functions, imports included.
        modules: what it has imported.
    """

    text: str
    steps: int
    modules: frozenset[str]


def help_of(module: str) -> Help:
    """Run the `main` of a module with `--help`, in a process of its own."""
    command = [sys.executable, "-c", _COUNTED_HELP, module]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    steps, *modules = ended.stderr.split()
    return Help(ended.stdout, int(steps), frozenset(modules))
