"""Speech as coroutines: what a speech asks of its models is awaited, so that many speeches can ask together.

A speech is an async generator. Its maths reads as if it were alone: `step = await session.decode(row)`. What is
behind that call decides the rest. A session of its own computes at once and nothing is ever suspended; `alone` is all
that it takes to run such a speech. A session in a batch hands out a `Call` instead, and a scheduler makes the calls
that wait for the same `Stage` together before it resumes their speeches. No event loop is involved.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from types import coroutine
from typing import Any, Generic, TypeVar, cast

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Unfinished(Enum):
    """Stands for the outcome of a call that goes on with the next step of its stage."""

    UNFINISHED = auto()


UNFINISHED = Unfinished.UNFINISHED


class Stage(ABC, Generic[Argument, Result]):
    """A kind of call that a model answers for many speeches at once.

    Attributes:
        at_once: how many calls are made in one step of a scheduler, at most; None for all that wait.
        gathers: it is quick, and those who come meanwhile are not to miss what the others do next: it is made again for
            them in the same step.
    """

    at_once: int | None = None
    gathers: bool = False

    def pick(self, waiting: Sequence[Call[Argument, Result]]) -> list[Call[Argument, Result]]:
        """Return those calls that are made next, of some that wait, the oldest first."""
        return list(waiting[: self.at_once])

    @abstractmethod
    def run(self, arguments: Sequence[Argument]) -> Sequence[Result | BaseException | Unfinished]:
        """Answer every argument in order, with an exception where that one alone failed.

        A call of several steps is UNFINISHED until its last one: a scheduler makes it again with the next ones.

        Raises:
            Exception: nothing could be answered.
        """

    def call(self, argument: Argument) -> Call[Argument, Result]:
        """Return a call to be awaited."""
        return Call(self, argument)


class Call(Generic[Argument, Result]):
    """One call: awaited by a speech, made by a scheduler together with others of its stage.

    It may be made before it is awaited, by a `Background`.

    Attributes:
        settled: it was made.
    """

    __slots__ = ("_outcome", "argument", "settled", "stage")

    def __init__(self, stage: Stage[Argument, Result], argument: Argument) -> None:
        self.stage = stage
        self.argument = argument
        self.settled = False
        self._outcome: Result | BaseException | None = None

    def settle(self, outcome: Result | BaseException) -> None:
        """Take note of what came of it."""
        self._outcome = outcome
        self.settled = True

    def __await__(self) -> Generator[Call[Argument, Result], None, Result]:
        if not self.settled:
            yield self
        return self.result()

    async def made(self) -> None:
        """Wait until it was made, and leave its result to somebody else."""
        await _made(self)

    def result(self) -> Result:
        """Return the result of a call that was made, or raise what it raised. To be asked once."""
        outcome, self._outcome = self._outcome, None
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            return cast(Result, outcome)
        finally:
            del outcome  # or an exception would keep this frame, which keeps it


@coroutine
def _made(call: Call[Any, Any]) -> Generator[Call[Any, Any], None, None]:
    if not call.settled:
        yield call


def make_calls(calls: Sequence[Call[Any, Any]]) -> None:
    """Make calls of one stage together; a failure of all is told to each of them."""
    try:
        outcomes = calls[0].stage.run([call.argument for call in calls])
    except Exception as error:
        outcomes = [_own_copy(error) for _ in calls]
    for call, outcome in zip(calls, outcomes, strict=True):
        if outcome is not UNFINISHED:
            call.settle(outcome)


def alone(values: AsyncGenerator[Value, None]) -> Generator[Value, None, None]:
    """Run an async generator that never suspends; its values come when they are asked for."""
    try:
        while True:
            try:
                with apart_from_event_loops():
                    value = completed(values.__anext__())
            except StopAsyncIteration:
                return
            yield value
    finally:
        with apart_from_event_loops():
            completed(values.aclose())


def completed(work: Awaitable[Value]) -> Value:
    """Return the result of something that never suspends.

    Raises:
        RuntimeError: it does: it belongs to a scheduler.
    """
    try:
        next(work.__await__())
    except StopIteration as end:
        return cast(Value, end.value)
    raise RuntimeError("a speech in a batch cannot run by itself")


@contextmanager
def apart_from_event_loops() -> Iterator[None]:
    """Keep async generators that begin inside from an event loop of this thread, which would take them for its own."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _own_copy(error: Exception) -> Exception:
    """Return an exception that one of several threads may raise: a raised one remembers where."""
    try:
        copy = type(error)(*error.args)
    except Exception:  # one that is not made of what it shows
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.__cause__ = error
    return copy
