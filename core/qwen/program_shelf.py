"""Programs that are kept because they will be wanted again."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..engine import Program


class ProgramShelf:
    """Programs by what they do, those that were not used for the longest time let go.

    Attributes:
        built: how many programs were made so far.
    """

    def __init__(self, most: int) -> None:
        """`most` is how many are kept."""
        self.built = 0
        self._most = most
        self._revision: int | None = None
        self._programs: dict[Hashable, Program] = {}  # the last one used is the last one here

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, revision: int, key: Hashable, build: Callable[[], Program]) -> Program:
        """Return the program of a key, and build it where there is none.

        Args:
            revision: of the memory it works on: programs of another one are let go.
            key: what else it depends on.
            build: makes it.
        """
        self.forget_others(revision)
        program = self._programs.pop(key, None)
        if program is None:
            while len(self._programs) >= self._most:
                del self._programs[next(iter(self._programs))]
            program = build()
            self.built += 1
        self._programs[key] = program
        return program

    def forget_others(self, revision: int) -> None:
        """Let go of the programs of memory that has moved since: they keep it."""
        if revision != self._revision:
            self._programs.clear()
            self._revision = revision

    def clear(self) -> None:
        """Let go of all."""
        self._programs.clear()
