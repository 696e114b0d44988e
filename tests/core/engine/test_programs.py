"""Programs, state, devices and the errors of their use."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine, Program, default_threads, devices
from ggtts.core.errors import EngineError, UsageError
from support.device import DEVICE
from support.patience import PATIENCE


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(DEVICE, threads=2)


@pytest.mark.cpu_only
def test_the_cpu_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cpu" in [device.name for device in devices()]
    monkeypatch.setenv("GGTTS_DEVICE", "CPU")
    assert Engine().device.name == "cpu"
    assert Engine().threads == default_threads() >= 1


@pytest.mark.parametrize("name", ["cuda99", "toaster"])
def test_unknown_devices_are_named(name: str) -> None:
    with pytest.raises(UsageError, match=f"no device '{name}'.*cpu"):
        Engine(name)


def test_thread_counts_below_one_are_refused() -> None:
    with pytest.raises(UsageError, match="threads must be at least 1, not 0"):
        Engine("cpu", threads=0)


def test_more_threads_than_cores_are_not_started(caplog: pytest.LogCaptureFixture) -> None:
    cores = os.cpu_count() or 1
    assert Engine("cpu", threads=100_000).threads == cores
    assert f"this machine has {cores} cores" in caplog.text


def test_state_survives_runs_and_effects_follow_outputs(engine: Engine) -> None:
    state = engine.state({"total": ((3,), "f32")})
    graph = engine.graph()
    x = graph.input("x", (3,))
    before = graph.use(state["total"])
    graph.effect((x + before).copy_to(state["total"]))
    program = graph.program({"before": before + 0.0})
    for step in range(1, 4):
        result = program(x=np.full(3, 2.0, dtype=np.float32))
        np.testing.assert_array_equal(result["before"], np.full(3, 2.0 * (step - 1)))
    np.testing.assert_array_equal(state.read("total"), np.full(3, 6.0))
    other = engine.state({"total": ((3,), "f32")})
    other.copy_from(state)
    state.zero()
    np.testing.assert_array_equal(other.read("total"), np.full(3, 6.0))
    np.testing.assert_array_equal(state.read("total"), np.zeros(3))


@pytest.mark.parametrize("early", [False, True])
def test_a_chain_of_memories(engine: Engine, early: bool) -> None:
    """Writes that depend on the only read of what they overwrite may come early: results are the same."""
    width, layers, lengths = 5, 4, (1, 3, 2, 7)
    state = engine.state({str(layer): ((width, 2), "f32") for layer in range(layers)})
    past = [np.zeros((2, width), np.float32) for _ in range(layers)]
    for length in lengths:
        graph = engine.graph()
        x = graph.input("x", (width, length))
        for layer in range(layers):
            kept = state[str(layer)]
            extended = kept.concat(x, 1)
            graph.effect(extended.slice(1, length, 2).copy_to(kept), early=early)
            x = extended.slice(1, 0, length) + extended.slice(1, 2, length) * 0.5
        values = np.arange(length * width, dtype=np.float32).reshape(length, width)
        result = graph.program({"y": x})(x=values)["y"].reshape(length, width)
        for layer in range(layers):
            seen = np.concatenate([past[layer], values])
            past[layer] = seen[-2:]
            values = seen[:length] + seen[2:] * np.float32(0.5)
        np.testing.assert_array_equal(result, values)
        for layer in range(layers):
            np.testing.assert_array_equal(state.read(str(layer)), past[layer])


def test_rows_written_into_state_are_read_through_the_write(engine: Engine) -> None:
    state = engine.state({"cache": ((4, 10, 2), "f16")})
    graph = engine.graph()
    rows, ids = graph.input("rows", (4, 3, 2)), graph.input("ids", (3,), "i64")
    cache = state["cache"].set_rows(rows, ids)
    program = graph.program({"cache": cache.cast("f32")})
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    result = program(rows=values, ids=np.array([7, 0, 2]))["cache"]
    expected = np.zeros((2, 10, 4), dtype=np.float32)
    expected[:, [7, 0, 2]] = values
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(state.read("cache").astype(np.float32), expected)


def test_programs_compute_in_one_place_whatever_its_size(engine: Engine) -> None:
    """A larger program moves the memory that all share, and its end gives it back; each finds its own places again."""
    width = 1 << 18

    def sums(columns: int) -> Program:
        graph = engine.graph()
        x = graph.input("x", (width, columns))
        return graph.program({"y": ((x + x) * (x + 1.0)).sum_rows()})

    def check(program: Program, columns: int) -> None:
        x = np.arange(columns, dtype=np.float32)[:, None] * np.ones(width, np.float32)
        expected = 2 * x[:, 0] * (x[:, 0] + 1) * width
        np.testing.assert_allclose(program(x=x)["y"].reshape(-1), expected, rtol=1e-5)

    small, medium = sums(1), sums(3)
    check(small, 1)
    check(medium, 3)
    large = sums(40)
    check(large, 40)
    assert small.buffer_bytes < medium.buffer_bytes < large.buffer_bytes
    check(small, 1)
    del large
    for _ in range(2):
        check(medium, 3)
        check(small, 1)


def test_programs_that_look_alike_are_planned_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many operations of the same sizes, but other results that have to be kept until the end."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    engine = Engine(DEVICE, threads=1)
    programs: list[tuple[Program, int]] = []
    for kept in (0, 1, 4, 2):
        graph = engine.graph()
        values = [graph.input("x", (1000,))]
        for _ in range(5):
            values.append(values[-1] + 1.0)
        programs.append((graph.program({"y": values[kept] * values[-1]}), kept))
    x = np.arange(1000, dtype=np.float32)
    for _ in range(2):
        for program, kept in programs:
            np.testing.assert_array_equal(program(x=x)["y"], (x + kept) * (x + 5))


def test_ids_beyond_a_table_are_refused_before_running(engine: Engine) -> None:
    graph = engine.graph()
    table, ids = graph.input("table", (4, 5)), graph.input("ids", (2,), "i32")
    program = graph.program({"rows": table.get_rows(ids)})
    values = np.zeros((5, 4), dtype=np.float32)
    for bad in ([0, 5], [-1, 0]):
        with pytest.raises(IndexError, match="5 rows"):
            program(table=values, ids=np.array(bad, dtype=np.int32))


def test_inputs_are_checked(engine: Engine) -> None:
    graph = engine.graph()
    program = graph.program({"y": graph.input("x", (4, 2)) + 1.0})
    with pytest.raises(TypeError, match="missing"):
        program()
    with pytest.raises(TypeError, match="no input 'z'"):
        program(x=np.zeros((2, 4), np.float32), z=np.zeros(1, np.float32))
    with pytest.raises(TypeError, match="f32"):
        program(x=np.zeros((2, 4), np.float64))
    with pytest.raises(ValueError, match="shape"):
        program(x=np.zeros((4, 2), np.float32))
    with pytest.raises(TypeError, match="contiguous"):
        program(x=[1.0, 2.0])
    np.testing.assert_array_equal(program(x=np.zeros((1, 2, 4), np.float32))["y"], np.ones((2, 4)))


def test_a_graph_too_large_for_its_room_raises(engine: Engine) -> None:
    graph = engine.graph(max_operations=8)
    x = graph.input("x", (4,))
    for _ in range(7):
        x = x + 1.0
    with pytest.raises(ValueError, match="max_operations"):
        x + 1.0


def test_programs_of_one_engine_run_from_many_threads(engine: Engine) -> None:
    def work(offset: float, results: dict[float, bool]) -> None:
        graph = engine.graph()
        program = graph.program({"y": graph.input("x", (256, 64)) * 2.0 + offset})
        x = np.ones((64, 256), np.float32)
        results[offset] = all(np.all(program(x=x)["y"] == 2.0 + offset) for _ in range(50))

    results: dict[float, bool] = {}
    threads = [threading.Thread(target=work, args=(float(i), results)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {float(i): True for i in range(4)}


@pytest.mark.cpu_only
def test_profile_names_every_node(engine: Engine) -> None:
    graph = engine.graph()
    x = graph.input("x", (32, 8))
    program = graph.program({"y": (x @ x).silu()})
    rows = program.profile(x=np.ones((8, 32), np.float32))
    assert [row[0] for row in rows] == ["MUL_MAT", "SILU"]
    assert program.nodes == 2
    assert all(row[4] >= 0 for row in rows)


def test_what_does_not_fit_is_an_error_and_the_log_of_ggml_arrives_in_python(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="ggtts.ggml"), pytest.raises(EngineError, match="no room"):
        engine.state({"huge": ((1 << 22, 1 << 22), "f32")})
    assert "failed to allocate" in caplog.text
    assert max(record.levelno for record in caplog.records) < logging.WARNING, "the error says it already"


WITHOUT_MEMORY = """
import resource
from ggtts.core.engine import Engine
engine = Engine("cpu", threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
try:
    engine.graph(max_operations=1_000_000)
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of a process")
def test_a_graph_without_memory_is_an_error_not_an_abort() -> None:
    command = [sys.executable, "-c", WITHOUT_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


MEMORY_LOST_BEFORE_A_RUN = """
import resource
import numpy as np
from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError
graph = Engine("cpu", threads=1).graph()
x = graph.input("x", (1 << 20, 1))
program = graph.program({"y": x.repeat(1 << 20, 128).sqr().sum_rows()})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    program(x=np.ones(1 << 20, np.float32))
except EngineError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of a process")
def test_a_device_that_fails_during_a_run_is_an_engine_error() -> None:
    """What has room when it is built may have none when it runs: memory is taken as late as that."""
    command = [sys.executable, "-c", MEMORY_LOST_BEFORE_A_RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no room for the intermediate results" in done.stdout


LOGGED_DURING_A_RUN = """
import logging, resource, threading
import numpy as np
from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError

engine = Engine("cpu", threads=1)
state = engine.state({"kept": ((4,), "f32")})
asked = threading.Event()

def zero():
    asked.set()
    state.zero()  # waits for the run, which waits for Python to take its line

class Receiver(logging.Handler):
    def emit(self, record):
        if not asked.is_set():
            threading.Thread(target=zero).start()
            asked.wait()

logging.getLogger("ggtts.ggml").addHandler(Receiver())
logging.getLogger("ggtts.ggml").setLevel(logging.INFO)
graph = engine.graph()
x = graph.input("x", (1 << 20, 1))
program = graph.program({"y": x.repeat(1 << 20, 128).sqr().sum_rows()})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    program(x=np.ones(1 << 20, np.float32))
except EngineError:
    print("both went on")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of a process")
def test_a_line_of_the_log_and_a_thread_that_waits_for_the_device_do_not_wait_for_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOGGED_DURING_A_RUN], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "both went on\n"), done.stderr
    assert "leaked" not in done.stderr  # what the handlers of the log know goes before the program ends
