"""What is closed when it is no longer needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

Own = TypeVar("Own", bound="Closing")


class Closing(ABC):
    """A context manager that closes itself at its end."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds. Closing twice is harmless."""

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
