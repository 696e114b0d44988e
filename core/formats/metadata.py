"""Checked access to the metadata of one GGUF file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError

ARCHITECTURE_KEY = "general.architecture"


def require_architecture(metadata: Mapping[str, Any], accepted: str, where: str, purpose: str) -> None:
    """Raise ModelFileError unless a file is of the accepted architecture; `purpose` is "a Qwen3-TTS talker"."""
    found = metadata.get(ARCHITECTURE_KEY)
    if found != accepted:
        stated = f"architecture {found!r}" if found else "no architecture"
        raise ModelFileError(f"{where}: states {stated}, but {purpose} ({accepted!r}) is needed here")


@dataclass(frozen=True)
class Keys:
    """The keys of a metadata mapping that begin with `prefix`, read by type.

    `where` names the file in errors. Accessors with a default return it for a missing key; those without raise
    ModelFileError, as all do for a value of another type.
    """

    values: Mapping[str, Any]
    where: str
    prefix: str = ""

    def under(self, prefix: str) -> Keys:
        """Return the keys below a further prefix."""
        return Keys(self.values, self.where, self.prefix + prefix)

    def __contains__(self, key: object) -> bool:
        return f"{self.prefix}{key}" in self.values

    def size(self, key: str) -> int:
        """Return a whole number of at least 1 that the file must state."""
        value = self.integer(key)
        if value < 1:
            raise ModelFileError(f"{self.where}: {self.prefix}{key} is {value}, but must be at least 1")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
            raise self._wrong(key, value, "a whole number")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number as float."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, value, "a number")
        return float(value)

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number, or None where the file does not state it."""
        return self.integer(key) if key in self else None

    def optional_number(self, key: str) -> float | None:
        """Return a number, or None where the file does not state it."""
        return self.number(key) if key in self else None

    def optional_flag(self, key: str) -> bool | None:
        """Return a boolean, or None where the file does not state it."""
        return bool(self._value(key, None)) if key in self else None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def sizes(self, key: str) -> tuple[int, ...]:
        """Return an array of whole numbers of at least 1, which the file must state and which is not empty."""
        values = self.integers(key)
        if not values:
            raise ModelFileError(f"{self.where}: is incomplete, it has no values for {self.prefix}{key}")
        if min(values) < 1:
            raise ModelFileError(
                f"{self.where}: {self.prefix}{key} is {list(values)}, but all must be at least 1"
            )
        return values

    def integers(self, key: str) -> tuple[int, ...]:
        """Return an array of whole numbers; a missing one is empty."""
        return tuple(int(item) for item in self._array(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of strings; a missing one is empty."""
        return tuple(str(item) for item in self._array(key))

    def _array(self, key: str) -> Sequence[Any]:
        value = self.values.get(self.prefix + key, ())
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
            raise self._wrong(key, value, "an array")
        return list(value)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(self.prefix + key, default)
        if value is None:
            raise ModelFileError(f"{self.where}: is incomplete, it has no key {self.prefix}{key}")
        return value

    def _wrong(self, key: str, value: Any, wanted: str) -> ModelFileError:
        return ModelFileError(f"{self.where}: {self.prefix}{key} is {value!r}, but must be {wanted}")
