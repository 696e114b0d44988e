"""Waiting in tests: for as long as the slowest and busiest machine may need, and never for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE = 180
"""Seconds that nothing takes that a test waits for, unless it is broken: no bound of a test is tighter."""


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true while there is patience; it is asked again and again."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while not condition():
        if time.monotonic() > end:
            return condition()
        pause.wait(0.002)
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when a condition has come true; AssertionError when patience ends before that."""
    assert eventually(condition)
