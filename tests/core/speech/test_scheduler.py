"""Many speeches on one thread: joining and leaving, fairness, slow readers, failures, and a clean end."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.errors import EngineError, UsageError
from ggtts.core.speech.calls import Stage
from ggtts.core.speech.lockstep import THREAD_NAME, Task
from ggtts.core.speech.observer import Observer
from ggtts.core.speech.scheduler import Occupancy, ScheduledStream, Scheduler
from ggtts.core.speech.stream import Account, AudioChunk
from support.patience import PATIENCE, eventually

FAILING, FATAL = -1, -2


class Steps(Stage[int, int]):
    """Answers n with n + 1, remembers who asked together, and waits for the gate to open."""

    def __init__(self, at_once: int | None = None) -> None:
        self.at_once = at_once
        self.together: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def run(self, arguments: Sequence[int]) -> list[int | Exception]:
        self.reached.set()
        assert self.gate.wait(PATIENCE)
        self.together.append(len(arguments))
        if FATAL in arguments:
            raise EngineError("the device is gone")
        return [EngineError("this one failed") if asked == FAILING else asked + 1 for asked in arguments]


@dataclass
class Family:
    """Says numbers: a request n is a speech of the chunks 1 .. n, each of which takes a step of every stage."""

    capacity: int = 3
    opening: Steps = field(default_factory=lambda: Steps(at_once=1))
    stage: Steps = field(default_factory=Steps)
    left: list[int] = field(default_factory=list)
    released: int = 0

    def scheduler(self) -> Scheduler[int, int]:
        def release() -> None:
            self.released += 1

        return Scheduler(self.begin, self.capacity, stages=(self.opening, self.stage), release=release)

    def begin(
        self, request: int, *, stream_frames: int | None, observer: Observer | None, fail_at: int = 0
    ) -> Task[int]:
        if request < 0:
            raise UsageError(f"{request} cannot be said")
        account = Account()
        return Task(request, 24_000, account, self.chunks(request, account, observer or Observer(), fail_at))

    async def chunks(
        self, request: int, account: Account, observer: Observer, fail_at: int
    ) -> AsyncIterator[AudioChunk]:
        try:
            value = await self.opening.call(0) - 1
            for number in range(1, request + 1):
                value = await self.stage.call(fail_at if fail_at and number == 3 else value)
                account.frames = number
                observer.frame(number)
                account.require_listener()
                yield AudioChunk(np.array([value], np.float32), 1, 1, 1)
            account.end_piece("end_of_speech", last=True)
        finally:
            self.left.append(request)


@pytest.fixture
def family() -> Family:
    return Family()


def heard(stream: ScheduledStream[Any]) -> list[int]:
    return [int(chunk.samples[0]) for chunk in stream]


def failure(stream: ScheduledStream[Any]) -> str | None:
    """Why a stream fails, None if it does not."""
    try:
        heard(stream)
    except EngineError as error:
        return str(error)
    return None


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_speeches_are_what_they_are_alone(family: Family) -> None:
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(count) for count in (5, 1, 0, 3, 7, 2)]
        assert [heard(stream) for stream in streams] == [
            list(range(1, count + 1)) for count in (5, 1, 0, 3, 7, 2)
        ]
        assert [stream.stop for stream in streams] == ["end_of_speech"] * 6
        assert scheduler.occupancy == Occupancy(0, 0, 3)
    assert sorted(family.left) == [0, 1, 2, 3, 5, 7]


def test_steps_are_taken_together(family: Family) -> None:
    family.stage.gate.clear()
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(10) for _ in range(3)]
        family.stage.gate.set()
        for stream in streams:
            heard(stream)
    assert family.opening.together == [1, 1, 1], "newcomers begin one by one"
    assert max(family.stage.together) == 3
    assert sum(family.stage.together) == 30
    assert len(family.stage.together) <= 12


def test_those_who_come_meanwhile_do_not_miss_a_step(family: Family) -> None:
    """Where a stage gathers, whoever comes while it is made takes it, and the next one, together with the others."""
    family.opening.at_once, family.opening.gathers = None, True
    family.opening.gate.clear()
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(1)]
        assert family.opening.reached.wait(PATIENCE)
        streams += [scheduler.submit(1), scheduler.submit(1)]
        family.opening.gate.set()
        assert [heard(stream) for stream in streams] == [[1]] * 3
    assert family.opening.together == [1, 2]
    assert family.stage.together == [3]


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), max_size=12),
    capacity=st.integers(1, 5),
    ahead=st.sampled_from([1, 2, 5, None]),
)
def test_any_mixture(counts: list[int], capacity: int, ahead: int | None) -> None:
    family = Family(capacity)
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(count, ahead=ahead) for count in counts]
        with ThreadPoolExecutor(max(1, len(streams))) as pool:
            results = list(pool.map(heard, streams))
    assert results == [list(range(1, count + 1)) for count in counts]
    assert max(family.stage.together, default=0) <= capacity
    assert sorted(family.left) == sorted(counts)


def test_places_go_to_those_who_came_first(family: Family) -> None:
    family.capacity = 1
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(count) for count in (2, 3, 1)]
        for stream in reversed(streams):
            heard(stream)
    assert family.left == [2, 3, 1]


def test_occupancy(family: Family) -> None:
    with family.scheduler() as scheduler:
        assert scheduler.occupancy == Occupancy(0, 0, 3)
        streams = [scheduler.submit(2, ahead=1) for _ in range(5)]
        assert eventually(lambda: scheduler.occupancy == Occupancy(3, 2, 3))
        streams[4].close()
        assert eventually(lambda: scheduler.occupancy == Occupancy(3, 1, 3))
        for stream in streams:
            heard(stream)
        assert scheduler.occupancy == Occupancy(0, 0, 3)
    assert family.left == [2] * 4, "the fifth never began"


def test_a_reader_that_does_not_read_holds_up_nobody_else(family: Family) -> None:
    with family.scheduler() as scheduler:
        slow = scheduler.submit(100, ahead=3)
        assert heard(scheduler.submit(50)) == list(range(1, 51))
        assert eventually(lambda: slow.frames == 3)
        assert heard(scheduler.submit(20, ahead=1)) == list(range(1, 21))
        assert slow.frames == 3
        next(slow)
        assert eventually(lambda: slow.frames == 4)
        assert heard(slow) == list(range(2, 101))


def test_chunks_that_nobody_has_heard_are_counted(family: Family) -> None:
    with family.scheduler() as scheduler:
        stream = scheduler.submit(3, ahead=None)
        assert eventually(lambda: stream.account.unheard == 3)
        next(stream)
        assert stream.account.unheard == 2


def test_closing_a_stream_frees_its_place(family: Family) -> None:
    family.capacity = 1
    with family.scheduler() as scheduler:
        endless = scheduler.submit(10**6)
        other = scheduler.submit(2)
        next(endless)
        endless.close()
        endless.close()
        assert heard(other) == [1, 2]
        assert (heard(endless), endless.stop) == ([], None)
    assert family.left == [10**6, 2]


def test_closing_a_stream_that_waits_for_its_reader(family: Family) -> None:
    family.capacity = 1
    with family.scheduler() as scheduler:
        paused = scheduler.submit(10, ahead=1)
        assert eventually(lambda: paused.frames == 1)
        paused.close()
        assert heard(scheduler.submit(2)) == [1, 2]


def test_closing_while_another_thread_reads(family: Family) -> None:
    family.stage.gate.clear()
    with family.scheduler() as scheduler, ThreadPoolExecutor(1) as pool:
        stream = scheduler.submit(5)
        reader = pool.submit(heard, stream)
        assert family.stage.reached.wait(PATIENCE)
        stream.close()
        assert reader.result(PATIENCE) == [], "at once, though the step is not done"
        family.stage.gate.set()


def test_closing_what_shares_an_account_with_one_that_waits_for_its_place(family: Family) -> None:
    """As the pieces of a long text do, of which one is read while it waits."""
    family.capacity = 1
    family.stage.gate.clear()
    with family.scheduler() as scheduler, ThreadPoolExecutor(1) as pool:
        before = scheduler.submit(3)
        task = family.begin(5, stream_frames=None, observer=None)
        reader = pool.submit(heard, scheduler.add(task))
        assert family.stage.reached.wait(PATIENCE)
        assert not reader.done()
        task.account.cancelled.set()
        family.stage.gate.set()
        assert heard(before) == [1, 2, 3]
        assert reader.result(PATIENCE) == []


def test_a_forgotten_stream_frees_its_place(family: Family) -> None:
    family.capacity = 1
    with family.scheduler() as scheduler:
        next(scheduler.submit(10**6))
        gc.collect()
        assert heard(scheduler.submit(2)) == [1, 2]


def test_an_observer_may_close_its_stream(family: Family) -> None:
    class Enough(Observer):
        def frame(self, frames: int) -> None:
            if frames == 3:
                streams[0].close()

    streams: list[ScheduledStream[int]] = []
    family.stage.gate.clear()
    with family.scheduler() as scheduler:
        streams.append(scheduler.submit(10, observer=Enough()))
        family.stage.gate.set()
        assert heard(scheduler.submit(5)) == [1, 2, 3, 4, 5]
        assert (heard(streams[0]), streams[0].frames) == ([], 3)


def test_a_failure_reaches_only_its_stream(family: Family) -> None:
    family.stage.gate.clear()
    with family.scheduler() as scheduler:
        good, bad = scheduler.submit(6), scheduler.submit(6, fail_at=FAILING)
        family.stage.gate.set()
        with pytest.raises(EngineError, match="this one failed"):
            heard(bad)
        assert heard(bad) == [], "it is said once"
        assert heard(good) == [1, 2, 3, 4, 5, 6]
        assert bad.stop is None


def test_what_was_made_before_a_failure_is_heard(family: Family) -> None:
    with family.scheduler() as scheduler:
        stream = scheduler.submit(6, fail_at=FAILING)
        assert [int(next(stream).samples[0]) for _ in range(2)] == [1, 2]
        with pytest.raises(EngineError):
            next(stream)


def test_a_failing_observer_ends_its_own_speech(family: Family) -> None:
    class Broken(Observer):
        def frame(self, frames: int) -> None:
            raise ZeroDivisionError

    with family.scheduler() as scheduler:
        bad, good = scheduler.submit(5, observer=Broken()), scheduler.submit(5)
        with pytest.raises(ZeroDivisionError):
            heard(bad)
        assert heard(good) == [1, 2, 3, 4, 5]


def test_an_engine_that_fails_fails_for_all_who_take_part_and_goes_on(family: Family) -> None:
    family.stage.gate.clear()
    with family.scheduler() as scheduler:
        together = [scheduler.submit(6, fail_at=FATAL), scheduler.submit(6), scheduler.submit(6)]
        assert family.stage.reached.wait(PATIENCE)
        later = scheduler.submit(2)
        family.stage.gate.set()
        failures = [failure(stream) for stream in together]
        assert failures.count("the device is gone") >= 2
        assert heard(later) == [1, 2]


def test_unsuitable_requests_fail_at_once(family: Family) -> None:
    with family.scheduler() as scheduler:
        with pytest.raises(UsageError, match="-5 cannot be said"):
            scheduler.submit(-5)
        with pytest.raises(UsageError, match="0 chunks"):
            scheduler.submit(5, ahead=0)
        with pytest.raises(TypeError):
            scheduler.submit(5, volume=11)
        assert threads() == [], "nothing has begun"
    with pytest.raises(UsageError, match="0 requests"):
        Scheduler(family.begin, 0)


def test_closing_ends_the_thread_and_all_speeches(family: Family) -> None:
    with family.scheduler() as scheduler:
        streams = [scheduler.submit(10**6, ahead=2) for _ in range(5)]
        assert eventually(lambda: all(stream.frames == 2 for stream in streams[:3]))
    assert (threads(), family.released) == ([], 1)
    assert len(family.left) == 3, "those that had a place"
    for stream in streams:
        with pytest.raises(EngineError, match="the scheduler was closed"):
            heard(stream)
        assert heard(stream) == []
    scheduler.close()
    with pytest.raises(EngineError, match="the scheduler was closed"):
        scheduler.submit(1)
    assert scheduler.occupancy == Occupancy(0, 0, 3)


def test_chunks_that_are_there_can_be_read_behind_the_end(family: Family) -> None:
    with family.scheduler() as scheduler:
        done, cut = scheduler.submit(2), scheduler.submit(10**6, ahead=2)
        assert eventually(lambda: done.stop is not None and cut.frames == 2)
        closed = scheduler.submit(3)
        closed.close()
    assert heard(done) == [1, 2]
    assert heard(closed) == []
    assert [int(next(cut).samples[0]) for _ in range(2)] == [1, 2]
    with pytest.raises(EngineError):
        next(cut)


def test_a_scheduler_that_nobody_used(family: Family) -> None:
    with family.scheduler():
        pass
    assert threads() == []


def test_a_forgotten_scheduler_closes(family: Family) -> None:
    scheduler = family.scheduler()
    stream = scheduler.submit(10**6)
    next(stream)
    del scheduler
    gc.collect()
    assert eventually(lambda: (threads(), family.released) == ([], 1)), "at once, unless it collects itself"


def test_readers_in_many_threads_who_come_and_go(family: Family) -> None:
    def visit(number: int) -> bool:
        stream = scheduler.submit(number % 7 + 3, ahead=number % 3 + 1)
        if number % 4 == 0:
            next(stream)
            stream.close()
            return heard(stream) == []
        return heard(stream) == list(range(1, number % 7 + 4))

    with family.scheduler() as scheduler, ThreadPoolExecutor(6) as pool:
        assert all(pool.map(visit, range(120)))
        assert eventually(lambda: scheduler.occupancy == Occupancy(0, 0, 3))
    assert threads() == []


def test_plain_generators_take_turns() -> None:
    log: list[str] = []

    def begin(request: str, **options: Any) -> Task[str]:
        def chunks() -> Iterator[AudioChunk]:
            for number in range(3):
                log.append(request)
                yield AudioChunk(np.array([number], np.float32), 1, 1, 1)

        return Task(request, 24_000, Account(), chunks())

    with Scheduler(begin, 2) as scheduler:
        streams = [scheduler.submit(name) for name in "abc"]
        assert [heard(stream) for stream in streams] == [[0, 1, 2]] * 3
    assert sorted(log) == sorted("aaabbbccc")
    assert log.index("c") > max(index for index, name in enumerate(log) if name == "a")


def test_closing_interrupts_those_that_compute_by_themselves() -> None:
    reached = threading.Event()

    def begin(request: str, **options: Any) -> Task[str]:
        account = Account()

        def chunks() -> Iterator[AudioChunk]:
            while True:  # the steps of a model
                account.require_listener()
                reached.set()
            yield

        return Task(request, 24_000, account, chunks())

    with Scheduler(begin, 1) as scheduler:
        stream = scheduler.submit("endless")
        assert reached.wait(PATIENCE)
    with pytest.raises(EngineError, match="closed"):
        heard(stream)


def test_time_counts_while_a_speech_has_a_place_and_does_not_pause(family: Family) -> None:
    family.capacity = 1
    with family.scheduler() as scheduler:
        paused, waiting = scheduler.submit(5, ahead=1), scheduler.submit(1)
        still = waiting.timings
        assert eventually(lambda: paused.frames == 1)
        assert waiting.timings == still
        assert heard(paused) == [1, 2, 3, 4, 5]
        assert heard(waiting) == [1]
        assert paused.timings.total_seconds > 0
