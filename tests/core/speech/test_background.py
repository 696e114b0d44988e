"""Calls that are made by a thread of their own."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from ggtts.core.errors import EngineError
from ggtts.core.speech.background import THREAD_NAME, Background
from ggtts.core.speech.calls import Stage
from ggtts.core.speech.lockstep import Task
from ggtts.core.speech.scheduler import Scheduler
from ggtts.core.speech.stream import Account, AudioChunk, LaterChunk
from support.patience import PATIENCE, eventually


class Squares(Stage[int, int]):
    """Squares numbers while its gate is open, and remembers which went together."""

    def __init__(self, at_once: int | None = None) -> None:
        self.at_once = at_once
        self.together: list[list[int]] = []
        self.gate = threading.Event()
        self.reached = threading.Event()

    def run(self, arguments: Sequence[int]) -> list[int | Exception]:
        self.reached.set()
        assert self.gate.wait(PATIENCE)
        self.together.append(list(arguments))
        if 13 in arguments:
            raise EngineError("no luck")
        return [ValueError("negative") if number < 0 else number * number for number in arguments]


class Later:
    """A speech of the squares of some numbers, which are passed on before they are known."""

    def __init__(self, background: Background[int, int]) -> None:
        self.background = background
        self.account = Account()
        self.ended = threading.Event()

    async def chunks(self, numbers: Sequence[int]) -> AsyncIterator[LaterChunk]:
        calls = [self.background.call(number) for number in numbers]
        try:
            for call in calls:
                yield LaterChunk(call, self.chunk)  # type: ignore[arg-type]
            for call in calls:
                await call.made()
        finally:
            self.ended.set()

    def chunk(self, value: Any) -> AudioChunk | None:
        return None if value == 4 else AudioChunk(np.array([value], np.float32), 1, 1, 1)


def later(numbers: Sequence[int], squares: Squares) -> tuple[Later, Scheduler[Any, Any], Any]:
    background: Background[int, int] = Background(squares)
    speech = Later(background)
    scheduler: Scheduler[Any, Any] = Scheduler(
        no_requests, 2, release=background.close, background=background
    )
    stream = scheduler.add(Task(None, 24_000, speech.account, speech.chunks(numbers)))
    return speech, scheduler, stream


def no_requests(*arguments: Any, **options: Any) -> Any:
    raise AssertionError("nobody asks")


def test_chunks_are_finished_by_who_hears_them() -> None:
    squares = Squares(at_once=1)
    speech, scheduler, stream = later([1, 2, 3], squares)
    with scheduler:
        assert squares.reached.wait(PATIENCE)
        assert speech.account.unheard == 0, "they are on their way"
        squares.gate.set()
        assert [float(chunk.samples[0]) for chunk in stream] == [1, 9], (
            "where nothing is to be heard, the next one"
        )


def test_chunks_that_cannot_be_finished() -> None:
    squares = Squares(at_once=1)
    squares.gate.set()
    speech, scheduler, stream = later([1, -1, 3], squares)
    with scheduler:
        assert float(next(stream).samples[0]) == 1
        with pytest.raises(ValueError, match="negative"):
            next(stream)
        assert list(stream) == [], "it has ended by that"
        assert speech.ended.wait(PATIENCE)


def test_chunks_on_their_way_when_all_is_closed() -> None:
    squares = Squares(at_once=1)
    speech, scheduler, stream = later([1, 2, 3], squares)
    assert squares.reached.wait(PATIENCE)
    closing = threading.Thread(target=scheduler.close)
    closing.start()
    assert speech.account.cancelled.wait(PATIENCE)
    squares.gate.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    with pytest.raises(EngineError, match="closed"):
        list(stream)


async def result(call: Any) -> Any:
    return await call


def outcome(call: Any) -> Any:
    """What a settled call gives."""
    try:
        result(call).send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it is not settled")


def settled(calls: Sequence[Any]) -> bool:
    return eventually(lambda: all(call.settled for call in calls))


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_those_that_wait_together_are_made_together() -> None:
    stage = Squares(at_once=3)
    background = Background(stage)
    assert threads() == []
    calls = [background.call(0)]
    assert stage.reached.wait(PATIENCE)
    calls += [background.call(number) for number in range(1, 6)]
    assert not any(call.settled for call in calls)
    stage.gate.set()
    assert settled(calls)
    assert stage.together == [[0], [1, 2, 3], [4, 5]]
    assert [outcome(call) for call in calls] == [0, 1, 4, 9, 16, 25]
    background.close()
    assert threads() == []


def test_failures_belong_to_their_calls() -> None:
    stage = Squares(at_once=2)
    background = Background(stage)
    first = background.call(1)
    assert stage.reached.wait(PATIENCE)
    calls = [background.call(number) for number in (-1, 2, 13, 3, 4)]
    stage.gate.set()
    assert settled([first, *calls])
    with pytest.raises(ValueError, match="negative"):
        outcome(calls[0])
    assert outcome(calls[1]) == 4
    for call in calls[2:4]:
        with pytest.raises(EngineError, match="no luck"):
            outcome(call)
    assert outcome(calls[4]) == 16, "the thread goes on"
    background.close()


def test_dropped_calls_are_not_made() -> None:
    stage = Squares()
    background = Background(stage)
    running = background.call(1)
    assert stage.reached.wait(PATIENCE)
    dropped, kept = [background.call(2), background.call(3)], background.call(4)
    background.drop([running, *dropped])
    stage.gate.set()
    assert settled([running, kept])
    assert stage.together == [[1], [4]]
    background.close()


def test_closing_waits_for_what_is_being_made_and_for_nothing_else() -> None:
    stage = Squares()
    background = Background(stage)
    running = background.call(1)
    assert stage.reached.wait(PATIENCE)
    waiting = background.call(2)
    closer = threading.Thread(target=background.close)
    closer.start()
    assert eventually(lambda: background.closed), "before the first call is made, or the second one were next"
    assert not running.settled
    stage.gate.set()
    closer.join(PATIENCE)
    assert running.settled
    assert not waiting.settled
    background.close()
    with pytest.raises(RuntimeError, match="has ended"):
        background.call(3)


def test_it_tells_of_work_elsewhere_when_that_changes() -> None:
    told: list[bool] = []
    background = Background(Squares(), told.append)
    for here in (False, True, True, False, True):
        background.work_elsewhere(here)
    background.close()
    assert told == [True, False, True, False]


class Aside:
    """Speeches that hand over numbers, go on meanwhile, and say the squares."""

    def __init__(self, stage: Squares, capacity: int = 3) -> None:
        background = self.background = Background(stage)
        released = self.released = threading.Event()
        left: list[int] = []
        self.left = left

        def release() -> None:
            background.close()
            released.set()

        def begin(request: int, **options: Any) -> Task[int]:
            account = Account()
            return Task(request, 24_000, account, squares(request, account, background, left))

        self.scheduler: Scheduler[Any, Any] = Scheduler(
            begin, capacity, stages=(), release=release, background=background
        )


async def squares(
    request: int, account: Account, background: Background[int, int], left: list[int]
) -> AsyncIterator[AudioChunk]:
    calls = []
    try:
        for number in range(request, request + 3):
            calls.append(background.call(number))
        for call in calls:
            yield AudioChunk(np.array([await call], np.float32), 1, 1, 1)
        account.end_piece("end_of_speech", last=True)
    finally:
        background.drop(calls)
        left.append(request)


def said(stream: Any) -> list[int]:
    return [int(chunk.samples[0]) for chunk in stream]


def test_speeches_wait_for_it_and_are_woken() -> None:
    stage = Squares()
    aside = Aside(stage)
    with aside.scheduler as scheduler:
        streams = [scheduler.submit(number) for number in (1, 10, 20, 30)]
        assert stage.reached.wait(PATIENCE)
        stage.gate.set()
        assert [said(stream) for stream in streams] == [
            [1, 4, 9], [100, 121, 144], [400, 441, 484], [900, 961, 1024],
        ]  # fmt: skip
    assert threads() == []


def test_a_failure_reaches_the_reader_of_that_speech() -> None:
    stage = Squares(at_once=1)
    stage.gate.set()
    with Aside(stage).scheduler as scheduler:
        good, bad, last = (scheduler.submit(number) for number in (1, 12, 30))
        assert said(good) == [1, 4, 9]
        with pytest.raises(EngineError, match="no luck"):
            said(bad)
        assert said(last) == [900, 961, 1024]


def test_who_leaves_takes_calls_along_and_frees_the_place() -> None:
    stage = Squares(at_once=1)
    aside = Aside(stage, capacity=1)
    with aside.scheduler as scheduler:
        leaving, staying = scheduler.submit(1), scheduler.submit(10)
        assert stage.reached.wait(PATIENCE)
        leaving.close()
        assert eventually(lambda: aside.left == [1])
        stage.gate.set()
        assert said(staying) == [100, 121, 144]
    assert [2] not in stage.together
    assert aside.left == [1, 10]


def test_closing_while_calls_are_made() -> None:
    stage = Squares(at_once=1)
    aside = Aside(stage)
    stream = aside.scheduler.submit(1)
    assert stage.reached.wait(PATIENCE)
    closer = threading.Thread(target=aside.scheduler.close)
    closer.start()
    with pytest.raises(EngineError, match="the scheduler was closed"):
        said(stream)
    stage.gate.set()
    closer.join(PATIENCE)
    assert aside.released.is_set()
    assert threads() == []


def test_it_may_be_the_thread_that_closes() -> None:
    """The garbage collector closes a forgotten scheduler on whichever thread it runs."""
    closed = threading.Event()

    class Closing(Squares):
        def run(self, arguments: Sequence[int]) -> list[int | Exception]:
            aside.scheduler.close()
            closed.set()
            return super().run(arguments)

    stage = Closing(at_once=1)
    stage.gate.set()
    aside = Aside(stage)
    with pytest.raises(EngineError, match="the scheduler was closed"):
        said(aside.scheduler.submit(1))
    assert closed.wait(PATIENCE)
    assert aside.released.wait(PATIENCE)
    assert eventually(lambda: threads() == [])


@pytest.mark.parametrize("used", [False, True])
def test_nothing_of_it_waits_for_the_garbage_collector(used: bool) -> None:
    gc.collect()
    gc.disable()
    try:
        stage = Squares()
        stage.gate.set()
        aside = Aside(stage)
        if used:
            said(aside.scheduler.submit(1))
        aside.scheduler.close()
        parts = [weakref.ref(part) for part in (aside.background, aside.scheduler._lockstep)]
        del aside
        assert [part() for part in parts] == [None, None]
    finally:
        gc.enable()
