"""Async generators that run by themselves, and calls that are made together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence

import pytest

from ggtts.core.errors import EngineError
from ggtts.core.speech.calls import UNFINISHED, Call, Stage, Unfinished, alone, completed, make_calls


class Doubling(Stage[int, int]):
    """Doubles numbers; knows nothing of negative ones, and none of them all when one is 13."""

    def run(self, arguments: Sequence[int]) -> list[int | Exception]:
        if 13 in arguments:
            raise EngineError("no luck")
        return [2 * number if number >= 0 else ValueError(f"{number}") for number in arguments]


async def numbers(count: int, log: list[str] | None = None) -> AsyncIterator[int]:
    try:
        for number in range(count):
            yield number
    finally:
        if log is not None:
            log.append("left")


def test_values_come_when_they_are_asked_for() -> None:
    log: list[str] = []
    values = alone(numbers(3, log))
    assert (next(values), next(values), log) == (0, 1, [])
    values.close()
    assert log == ["left"]
    assert list(alone(numbers(3))) == [0, 1, 2]


def test_a_failure_comes_through() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 1
        raise EngineError("broken")

    values = alone(failing())
    assert next(values) == 1
    with pytest.raises(EngineError, match="broken"):
        next(values)
    assert list(values) == []


def test_what_belongs_to_a_batch_cannot_run_by_itself() -> None:
    async def asking() -> int:
        return await Doubling().call(1)

    with pytest.raises(RuntimeError, match="in a batch"):
        completed(asking())


def test_calls_of_a_stage_are_answered_together() -> None:
    stage = Doubling()
    calls = [stage.call(number) for number in (1, -2, 3)]
    answers = [waiting(call) for call in calls]
    make_calls(calls)
    assert finished(answers[0]) == 2
    with pytest.raises(ValueError, match="-2"):
        finished(answers[1])
    assert finished(answers[2]) == 6


def test_a_call_of_several_steps() -> None:
    class Counting(Stage[list[int], int]):
        def run(self, arguments: Sequence[list[int]]) -> list[int | Unfinished]:
            for steps in arguments:
                steps.append(len(steps))
            return [len(steps) if len(steps) == 3 else UNFINISHED for steps in arguments]

    stage = Counting()
    calls = [stage.call([]), stage.call([0])]
    make_calls(calls)
    assert [call.settled for call in calls] == [False, False]
    make_calls(calls)
    assert [call.settled for call in calls] == [False, True]
    make_calls(calls[:1])
    assert [call.settled for call in calls] == [True, True]


def test_a_failure_of_all_is_raised_in_each_as_one_of_its_own() -> None:
    stage = Doubling()
    calls = [stage.call(number) for number in (1, 13)]
    answers = [waiting(call) for call in calls]
    make_calls(calls)
    raised = []
    for answer in answers:
        with pytest.raises(EngineError, match="no luck") as error:
            finished(answer)
        raised.append(error.value)
    assert raised[0] is not raised[1]
    assert raised[0].__cause__ is raised[1].__cause__ is not None


def waiting(call: Call[int, int]) -> object:
    """A coroutine that has come to a call."""

    async def asking() -> int:
        return await call

    coroutine = asking()
    assert coroutine.send(None) is call
    return coroutine


def finished(coroutine: object) -> int:
    """What a coroutine returns when it is resumed."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)  # type: ignore[attr-defined]
    return int(end.value.value)


def test_an_event_loop_of_the_thread_has_no_part_in_it() -> None:
    log: list[str] = []

    async def program() -> None:
        values = alone(numbers(3, log))
        assert next(values) == 0
        del values
        gc.collect()
        assert log == ["left"], "not left to the loop"
        again = alone(numbers(3, log))
        assert next(again) == 0
        await asyncio.get_running_loop().shutdown_asyncgens()
        assert list(again) == [1, 2]

    asyncio.run(program())


def test_a_failure_that_cannot_be_made_again_is_told_all_the_same() -> None:
    class Peculiar(Exception):
        def __init__(self, *, reason: str) -> None:
            super().__init__(f"because of {reason}")

    class Failing(Stage[int, int]):
        def run(self, arguments: Sequence[int]) -> list[int]:
            raise Peculiar(reason="rain")

    stage = Failing()
    calls = [stage.call(number) for number in range(2)]
    answers = [waiting(call) for call in calls]
    make_calls(calls)
    for answer in answers:
        with pytest.raises(RuntimeError, match="Peculiar: because of rain"):
            finished(answer)
