"""A process that works on after its device has failed: `python failed_device.py ERROR...`, which GGML logs then, or
Vulkan throws.

It prints the failure, what becomes of each attempt afterwards, whether the device tells its memory, and how many MB are
given back when 128 MB are let go of.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ggtts import _native
from ggtts.core.engine import Engine, Program, State, devices
from ggtts.core.engine.failures import native_failures
from ggtts.core.errors import EngineError

LARGE = 1 << 27
"""Bytes."""


def tell(attempt: Callable[[], Any]) -> None:
    """Print what becomes of it."""
    try:
        attempt()
    except EngineError as error:
        print(error)
    else:
        print("works")


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def doubled(engine: Engine) -> Program:
    """A program of one operation."""
    graph = engine.graph()
    x = graph.input("x", (3,))
    return graph.program({"y": x + x})


def fail(engine: Engine) -> None:
    """Let GGML give up, or Vulkan throw what begins with its name."""
    errors = sys.argv[1:]
    with native_failures():
        if errors[0].startswith("vk::"):
            _native.fail_in_driver(engine.backend, errors[0])
        else:
            _native.give_up(engine.backend, errors)


def make_things() -> tuple[Engine, Program, State]:
    """Have an engine, a program and 128 MB."""
    engine = Engine("cpu", threads=1)
    return engine, doubled(engine), engine.state({"large": ((LARGE // 4,), "f32")})


def use(engine: Engine, program: Program, state: State) -> None:
    """Try all that works on a device."""
    tell(lambda: fail(engine))
    tell(lambda: program(x=np.zeros(3, np.float32)))
    tell(state.zero)
    tell(lambda: state.copy_from(state))
    tell(lambda: engine.state({"small": ((3,), "f32")}))
    tell(lambda: doubled(engine))
    tell(lambda: Engine("cpu", threads=1))
    print(any(device.memory_total > 0 for device in devices() if device.kind == "cpu"))


if __name__ == "__main__":
    things = make_things()
    use(*things)
    before = resident()
    del things
    print(128 * round((before - resident()) / LARGE))
