"""What the log says about one request, gathered while it is answered. Never what was to be said."""

from __future__ import annotations

from starlette.types import Scope

_KEY = "ggtts.notes"


class Notes:
    """Words for the line of a request, in the order in which they were added."""

    def __init__(self) -> None:
        self._words: list[str] = []

    def add(self, **words: object) -> None:
        """Add words as name=value; seconds and factors are given as floats."""
        for name, value in words.items():
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            self._words.append(f"{name}={shown}")

    def __str__(self) -> str:
        return " ".join(self._words)


def begin_notes(scope: Scope) -> Notes:
    """Return new notes, and keep them with the request."""
    notes = scope[_KEY] = Notes()
    return notes


def notes_of(scope: Scope) -> Notes:
    """Return the notes of a request."""
    notes: Notes = scope[_KEY]
    return notes
