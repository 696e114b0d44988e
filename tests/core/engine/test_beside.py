"""A second engine on the same device: its programs run while those of the first one do, and use its weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts import _native
from ggtts.core.engine import Engine, Weights
from support.comparing import same
from support.data import CODEC
from support.device import DEVICE
from support.patience import PATIENCE


def product(engine: Engine, weights: Weights, name: str, width: int) -> Callable[[np.ndarray], np.ndarray]:
    graph = engine.graph()
    program = graph.program({"y": weights.matrix(name) @ graph.input("x", (width, 5))})
    return lambda x: program(x=x)["y"]


@pytest.fixture(scope="module")
def weights_file(tiny_gguf: Callable[..., Path]) -> Path:
    return tiny_gguf(CODEC)


@pytest.mark.cpu_only
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_with_few_threads_there_is_none(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert Engine("cpu", threads).beside() is None


@pytest.mark.cpu_only
def test_with_four_threads_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    beside = Engine("cpu", 4).beside()
    assert beside is not None
    assert beside.threads == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_both_compute_at_once_with_the_same_weights(weights_file: Path, threads: int) -> None:
    engine = Engine(DEVICE, threads)
    beside = engine.beside(always=True)
    assert beside is not None
    assert beside.device == engine.device
    weights = engine.weights(weights_file)
    name = next(name for name in weights.names() if len(weights.shape(name)) == 2 and name.endswith("weight"))
    x = np.random.default_rng(1).normal(size=(5, weights.shape(name)[-1])).astype(np.float32)
    programs = [product(which, weights, name, x.shape[1]) for which in (engine, beside)]
    expected = programs[0](x)
    beside.begin_sharing()
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(lambda run: [run(x) for _ in range(200)], run) for run in programs]
        assert all(same(y, expected) for answer in answers for y in answer.result(PATIENCE))
    beside.end_sharing()
    assert same(programs[1](x), expected)


def test_it_outlives_the_first_one_and_may_be_made_again(weights_file: Path) -> None:
    engine = Engine(DEVICE, 2)
    for _ in range(3):
        beside = engine.beside(always=True)
        assert beside is not None
        del beside
    beside = engine.beside(always=True)
    del engine
    assert beside is not None
    graph = beside.graph()
    doubled = graph.program({"y": graph.input("x", (4,)) * 2.0})
    assert doubled(x=np.ones(4, np.float32))["y"].tolist() == [2, 2, 2, 2]


@pytest.mark.cpu_only
def test_there_are_no_more_than_two() -> None:
    engine = Engine("cpu", 1)
    beside = engine.beside(always=True)
    with pytest.raises(ValueError, match="second backend already"):
        engine.beside(always=True)
    del beside


def test_either_alone_has_all_threads() -> None:
    share = _native.ThreadShare(8, 2)
    for _ in range(2):
        assert share.first_begins() == 8
        share.first_ends()
        assert share.second_begins() == 8
        share.second_ends()


def test_beside_the_first_one_the_second_has_its_part() -> None:
    share = _native.ThreadShare(8, 2)
    share.begin_sharing()
    assert share.second_begins() == 2
    assert share.first_begins() == 6
    share.second_ends()
    assert share.second_begins() == 2
    share.first_ends()
    share.second_ends()
    share.end_sharing()
    assert share.second_begins() == 8


def test_who_comes_while_all_threads_are_in_use_waits() -> None:
    share = _native.ThreadShare(4, 1)
    with ThreadPoolExecutor(1) as pool:
        assert share.first_begins() == 4
        waiting = pool.submit(share.second_begins)
        assert not threading.Event().wait(0.05)
        assert not waiting.done()
        share.first_ends()
        assert waiting.result(PATIENCE) == 4
        other = pool.submit(share.first_begins)
        assert not threading.Event().wait(0.05)
        assert not other.done()
        share.second_ends()
        assert other.result(PATIENCE) == 4


@settings(max_examples=10, deadline=None)
@given(total=st.integers(2, 9), data=st.data())
def test_there_are_never_more_threads_than_there_are(total: int, data: st.DataObject) -> None:
    share = _native.ThreadShare(total, data.draw(st.integers(1, total - 1)))
    lock, in_use, most = threading.Lock(), [0], [0]

    def turns(begins: Callable[[], int], ends: Callable[[], None], pauses: list[float]) -> None:
        for pause in pauses:
            count = begins()
            with lock:
                in_use[0] += count
                most[0] = max(most[0], in_use[0])
            threading.Event().wait(pause)
            with lock:
                in_use[0] -= count
            ends()

    pauses = st.lists(st.sampled_from([0.0, 0.0005, 0.002]), min_size=5, max_size=15)
    if data.draw(st.booleans()):
        share.begin_sharing()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(turns, share.first_begins, share.first_ends, data.draw(pauses))
        second = pool.submit(turns, share.second_begins, share.second_ends, data.draw(pauses))
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert most[0] <= total
