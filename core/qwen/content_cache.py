"""A small memory of results by what they were made from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ContentCache(Generic[Value]):
    """Keeps the results that were used last, up to `capacity`. Safe for threads.

    Keys are content: they are compared in full, and equal keys mean equal results.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the result for a key, made now if it is not known.

        Threads that ask for a new key together may make it more than once; none waits for another.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)
        return value

    def find(self, key: Hashable) -> Value | None:
        """Return the result for a key if it is known."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
