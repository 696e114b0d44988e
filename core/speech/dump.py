"""The stages of a run as files, under the names that the models give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..formats.dump import write_dump
from .observer import Observer


class StageDump(Observer):
    """Writes every stage to `directory/<name>.bin` (`core.formats.dump`), the directory being created.

    A text that is spoken in several pieces has a numbered directory for each; what belongs to the voice rather than
    to a piece lies beside them.
    """

    wants_stages = True

    def __init__(self, directory: Path) -> None:
        self._directory = self._current = Path(directory)

    def piece(self, number: int, count: int) -> None:
        """Go on in the directory of that piece."""
        self._current = self._directory if count == 1 else self._directory / str(number)

    def stage(self, name: str, values: NDArray[Any]) -> None:
        """Write a stage.

        Raises:
            OutputError: it cannot be written.
        """
        write_dump(self._current, name, values)
