"""What GGML gives up on: an error, and one that a device survives where it can."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import Engine, Program
from ggtts.core.engine.failures import native_failures
from ggtts.core.errors import EngineError
from support import failed_device, profiling
from support.patience import PATIENCE
from support.platforms import posix_only

NO_MEMORY = ("CUDA error: out of memory", "  current device: 0, in function alloc", "  cuMemCreate(&handle)")
"""What GGML logs before it gives up where a card is full."""

LOST = (
    "CUDA error: an illegal memory access was encountered",
    "  current device: 0, in function free at /where/it/was/built.cu:12",
    "  a / statement",
)
"""The same where nothing that is on the card can be reached any more."""

LOST_BY_VULKAN = "vk::Queue::submit: ErrorDeviceLost"
NO_MEMORY_FOR_VULKAN = "vk::Device::allocateMemory: ErrorOutOfDeviceMemory"
"""What its headers throw."""

ADVICE = "do less at a time, take a smaller model or a quantised file"


def give_up(engine: Engine, errors: Sequence[str]) -> None:
    """Run what GGML gives up on."""
    with native_failures():
        _native.give_up(engine.backend, list(errors))


@pytest.fixture
def engine() -> Engine:
    return Engine("cpu", threads=1)


@pytest.fixture
def doubling(engine: Engine) -> Program:
    graph = engine.graph()
    x = graph.input("x", (3,))
    return graph.program({"y": x + x})


def works(program: Program) -> bool:
    values = np.arange(3, dtype=np.float32)
    return bool((program(x=values)["y"] == 2 * values).all())


@pytest.mark.parametrize(
    "reason",
    [
        "CUDA error: out of memory",
        "ROCm error: out of memory",
        "CUDA error: the resource allocation failed",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
    ],
)
def test_work_goes_on_after_a_lack_of_memory(engine: Engine, doubling: Program, reason: str) -> None:
    assert works(doubling)
    with pytest.raises(EngineError) as failure:
        give_up(engine, [reason, *NO_MEMORY[1:]])
    assert str(failure.value) == f"device 'cpu': it ran out of memory ({reason}): {ADVICE}"
    assert works(doubling)
    state = engine.state({"kept": ((3,), "f32")})
    assert not state.read("kept").any()


@pytest.mark.parametrize("lacking", ["OutOfDeviceMemory", "OutOfHostMemory"])
def test_what_vulkan_throws_for_lack_of_memory(engine: Engine, doubling: Program, lacking: str) -> None:
    with pytest.raises(EngineError) as failure, native_failures():
        _native.fail_in_driver(engine.backend, f"vk::Device::allocateMemory: Error{lacking}")
    reason = f"vk::Device::allocateMemory: Error{lacking}: as its driver says"
    assert str(failure.value) == f"device 'cpu': it ran out of memory ({reason}): {ADVICE}"
    assert works(doubling)


def test_the_reason_is_told_once(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """What GGML logged has become the error; whoever looks for more finds it among the details."""
    caplog.set_level(logging.DEBUG, "ggtts.ggml")
    with pytest.raises(EngineError):
        give_up(engine, ["MUL_MAT failed", *NO_MEMORY])
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert said == [(logging.DEBUG, text) for text in ("MUL_MAT failed", *NO_MEMORY)]


def test_an_assertion_says_where_it_stands(engine: Engine, doubling: Program) -> None:
    with pytest.raises(EngineError) as failure:
        give_up(engine, [])
    assert str(failure.value).startswith("device 'cpu': failure_bindings.cpp:")
    assert str(failure.value).endswith(": given up")
    with pytest.raises(EngineError, match=r"given up \(no such operation\)$"):
        give_up(engine, ["no such\noperation \n"])
    assert works(doubling)


ONE_ENGINE = "from ggtts import _native\nfrom ggtts.core.engine import Engine\nengine = Engine('cpu', 1)\n"


def last_words(*arguments: str) -> str:
    """What Python says on standard error that runs something and is aborted."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, "")
    return done.stderr


@posix_only
def test_where_nothing_can_be_thrown_the_process_ends_with_one_line() -> None:
    failing = f"_native.give_up(engine.backend, {NO_MEMORY}, guarded=False)\n"
    assert last_words("-c", ONE_ENGINE + failing) == (
        "ggtts: GGML gave up: CUDA error: out of memory"
        " (current device: 0, in function alloc; cuMemCreate(&handle))\n"
    )


@posix_only
def test_nothing_is_thrown_while_something_else_is() -> None:
    """As in a destructor of GGML, when its device is lost."""
    failing = f"_native.fail_in_driver(engine.backend, {LOST_BY_VULKAN!r}, then_gives_up=True)\n"
    (line,) = last_words("-c", ONE_ENGINE + failing).splitlines()
    assert line.endswith("given up while an error is on its way")


@posix_only
def test_threads_that_compute_together_are_not_left_alone() -> None:
    """Those that wait for the one that GGML gave up in would wait for ever."""
    (line,) = last_words(profiling.__file__).splitlines()
    assert line.startswith("ggtts: GGML gave up: ")


def after(errors: Sequence[str]) -> list[str]:
    """What a process prints that works on after a failure; see `failed_device`."""
    command = [sys.executable, failed_device.__file__, *errors]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_device_that_is_lost_is_left_alone() -> None:
    """Not even memory is given back there, which GGML would give up on once more."""
    failure, *attempts, tells_memory, given_back = after(LOST)
    assert (
        failure
        == f"device 'cpu': {LOST[0]} (current device: 0, in function free at built.cu:12; a / statement)"
    )
    assert attempts == 6 * [f"device 'cpu' failed before: {LOST[0]}"]
    assert (tells_memory, given_back) == ("False", "0")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_so_is_one_that_vulkan_lost() -> None:
    failure, *attempts, tells_memory, given_back = after([LOST_BY_VULKAN])
    reason = f"{LOST_BY_VULKAN}: as its driver says"
    assert failure == f"device 'cpu': {reason}"
    assert attempts == 6 * [f"device 'cpu' failed before: {reason}"]
    assert (tells_memory, given_back) == ("False", "0")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("errors", [NO_MEMORY, [NO_MEMORY_FOR_VULKAN]], ids=["cuda", "vulkan"])
def test_one_that_lacked_memory_is_not(errors: Sequence[str]) -> None:
    _, *attempts, tells_memory, given_back = after(errors)
    assert attempts == 6 * ["works"]
    assert (tells_memory, given_back) == ("True", "128")
