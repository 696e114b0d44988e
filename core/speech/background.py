"""Calls that are made on a thread of their own, while the speeches that asked go on with something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from .calls import Call, Stage, make_calls

Argument = TypeVar("Argument")
Result = TypeVar("Result")

THREAD_NAME = "ggtts-background"


def _nobody(goes_on: bool) -> None:
    pass


def _nothing() -> None:
    pass


class Background(Generic[Argument, Result]):
    """A thread that makes the calls of one stage: those together that wait together, as the stage picks them.

    It begins with the first call. Whoever closes it waits for its end.
    """

    def __init__(
        self, stage: Stage[Argument, Result], on_work_elsewhere: Callable[[bool], None] | None = None
    ) -> None:
        """`on_work_elsewhere` is told whether others compute meanwhile, when that changes."""
        self.stage = stage
        self._on_work_elsewhere = on_work_elsewhere or _nobody
        self._on_settled = _nothing
        self._changed = threading.Condition()
        self._waiting: list[Call[Argument, Result]] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        self._work_elsewhere = False

    @property
    def closed(self) -> bool:
        """Whether no more calls are taken, nor made when the one at hand is."""
        return self._closed

    @property
    def is_here(self) -> bool:
        """Whether it is the thread that asks."""
        return threading.current_thread() is self._thread

    def on_settled(self, notify: Callable[[], None]) -> None:
        """Let `notify` be called, by this thread, whenever calls were made."""
        self._on_settled = notify

    def work_elsewhere(self, goes_on: bool) -> None:
        """Tell whether others compute meanwhile: their thread is at work, and does not wait for this one."""
        if goes_on != self._work_elsewhere:
            self._work_elsewhere = goes_on
            self._on_work_elsewhere(goes_on)

    def call(self, argument: Argument) -> Call[Argument, Result]:
        """Hand over a call, which may be awaited whenever its result is wanted, or never.

        Raises:
            RuntimeError: it was closed.
        """
        call = self.stage.call(argument)
        with self._changed:
            if self._closed:
                raise RuntimeError("calls were handed over to a thread that has ended")
            self._waiting.append(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return call

    def drop(self, calls: Collection[Call[Argument, Result]]) -> None:
        """Do not make calls that nobody awaits any more, unless that has begun."""
        with self._changed:
            self._waiting = [call for call in self._waiting if call not in calls]

    def close(self) -> None:
        """End the thread when it has made what it is at; calls that wait are never made. Closing twice is harmless."""
        with self._changed:
            self._closed = True
            self._on_settled = _nothing
            self._waiting.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and not self.is_here:
            thread.join()
        self.work_elsewhere(False)

    def _run(self) -> None:
        while taken := self._take():
            make_calls(taken)
            self._on_settled()

    def _take(self) -> list[Call[Argument, Result]]:
        """Wait for calls and take those that are made next; none at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return []
            taken = self.stage.pick(self._waiting)
            chosen = set(map(id, taken))
            self._waiting = [call for call in self._waiting if id(call) not in chosen]
            return taken
