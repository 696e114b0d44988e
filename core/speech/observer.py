"""Watching speech being made: progress, and the stages inside the model."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class Observer:
    """Is told what happens while a request is spoken. Every method does nothing: override those of interest.

    All are called by the thread that speaks. An exception that one raises ends the speech.

    Attributes:
        wants_stages: `stage` is only called where this is true, because stages cost time to compute.
    """

    wants_stages: bool = False

    def piece(self, number: int, count: int) -> None:
        """Piece `number` of `count` begins; a text that is not cut is one piece."""

    def frame(self, frames: int) -> None:
        """The current piece has this many frames now."""

    def stage(self, name: str, values: NDArray[Any]) -> None:
        """A stage was computed. Its name is that of the C++ program's validation harness."""


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self.wants_stages = any(getattr(observer, "wants_stages", False) for observer in observers)

    def piece(self, number: int, count: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.piece(number, count)

    def frame(self, frames: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.frame(frames)

    def stage(self, name: str, values: NDArray[Any]) -> None:
        """Tell those that want to know."""
        for observer in self._observers:
            if getattr(observer, "wants_stages", False):
                observer.stage(name, values)
