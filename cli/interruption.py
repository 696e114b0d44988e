"""Ctrl-C and its relatives: the first unwinds the stack, so that partial files go away; more do not disturb that."""

from __future__ import annotations

import atexit
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

PATIENCE_SECONDS = 5.0
"""So long a command may need to tidy up; whoever asks again later means it."""


class Interruption:
    """The handler of the signals that ask a command to end.

    The first one raises KeyboardInterrupt (Ctrl-C) or SystemExit with its exit code. Others are not heard while that
    takes its way up; `PATIENCE_SECONDS` after the first they end the process at once.

    Attributes:
        exit_code: 128 and the number of the first signal, 130 before one has come.
        has_come: there was a signal that raised: whatever error follows is its doing.
    """

    def __init__(self) -> None:
        self.exit_code = 128 + signal.SIGINT
        self.has_come = False
        self._ends = False
        self._began: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether it is to be the handler until the process ends."""
        return self.has_come or self._ends

    def end(self) -> None:
        """Take note that the command ends as it was asked to, and well: who asks again does not change that."""
        self._ends = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now
            if self._ends:
                return
            self.has_come, self.exit_code = True, 128 + number
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(self.exit_code)
        if now - self._began > PATIENCE_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let signals raise exceptions while the body runs; one that comes is heeded until the process ends.

    A signal that was ignored from the start (nohup, a job in the background) stays ignored, and a block within another
    one is the same. Where handlers cannot be set, outside of the main thread, everything stays as it is.
    """
    known = signal.getsignal(signal.SIGINT)
    if isinstance(known, Interruption):
        yield known
        return
    interruption = Interruption()
    previous = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        usual = (signal.SIG_DFL, signal.default_int_handler)
        with suppress(ValueError):
            if number is not None and signal.getsignal(number) in usual:
                previous[number] = signal.signal(number, interruption)
    try:
        yield interruption
    finally:
        if interruption.lasts:
            atexit.register(_ignore, *previous)
        else:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _ignore(*numbers: int) -> None:
    """Have signals change nothing any more: Python takes its handlers away before the process is gone."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
