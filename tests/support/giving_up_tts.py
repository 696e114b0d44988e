"""`qwen-tts` as a process of its own, on a device that gives up: `python giving_up_tts.py RUN ERROR ARGUMENTS`.

Instead of the RUN-th run of a program, GGML logs the ERROR and gives up; one that begins with "vk::" Vulkan throws.
"""

import itertools
import sys
from typing import Any

from ggtts import _native
from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from ggtts.core.engine import Program
from ggtts.core.engine.failures import native_failures


def fail(error: str) -> None:
    """Let GGML give up on the CPU, or Vulkan throw what begins with its name."""
    backend = _native.Backend("cpu", 1)
    with native_failures():
        if error.startswith("vk::"):
            _native.fail_in_driver(backend, error)
        else:
            _native.give_up(backend, ["MUL_MAT failed", error, "  a statement"])


if __name__ == "__main__":
    failing, error = int(sys.argv[1]), sys.argv[2]
    numbers = itertools.count(1)
    really_run = Program.__call__

    def maybe_run(program: Program, **inputs: Any) -> Any:
        """Run a program, unless its turn has come."""
        if next(numbers) == failing:
            fail(error)
        return really_run(program, **inputs)

    Program.__call__ = maybe_run  # type: ignore[method-assign]
    sys.exit(run(command, NAME, sys.argv[3:]))
