"""Checked access to the metadata of one GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError
from .kinds import ARCHITECTURE_KEY, OWN_ARCHITECTURES, kind_of_model, quoted

__all__ = ["ARCHITECTURE_KEY", "Keys", "require_architecture"]

LARGEST_SIZE = 2**31 - 1
MOST_PARTS = 1024
"""More layers, codebooks or stages than any model has; each costs something before a tensor of it is looked for."""
LONGEST_WINDOW = 4096
"""Positions of a sliding window, all of which a stream keeps."""
SLOWEST_RATE, FASTEST_RATE = 4_000, 384_000


def require_architecture(metadata: Mapping[str, Any], accepted: str, where: str) -> None:
    """Raise ModelFileError, which says what the file is, unless it is of the accepted architecture."""
    if metadata.get(ARCHITECTURE_KEY) != accepted:
        raise ModelFileError(
            f"{where}: is {kind_of_model(metadata)}, but {OWN_ARCHITECTURES[accepted]}"
            f" (architecture {accepted!r}) is needed here"
        )
    parts = metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise ModelFileError(
            f"{where}: is one of {parts} parts of a split file: join them with gguf-split --merge of llama.cpp"
        )


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
        return self._within(key, self.integer(key), 1, LARGEST_SIZE)

    def count(self, key: str) -> int:
        """Return how many there are of something that consists of tensors: layers, codebooks."""
        return self._within(key, self.integer(key), 1, MOST_PARTS)

    def rate(self, key: str) -> int:
        """Return a sample rate in Hz."""
        return self._within(key, self.integer(key), SLOWEST_RATE, FASTEST_RATE)

    def window(self, key: str) -> int:
        """Return the length of a sliding window, which keeps the position itself and at least one before it."""
        return self._within(key, self.integer(key), 2, LONGEST_WINDOW)

    def token(self, key: str, tokens: int) -> int:
        """Return an id that the file must state, of one of so many tokens."""
        return self._within(key, self.integer(key), 0, tokens - 1)

    def positive(self, key: str) -> float:
        """Return a number above 0 that the file must state."""
        value = self.number(key)
        if value <= 0:
            raise self._wrong(key, value, "above 0")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number."""
        value = self._value(key, default)
        if not _is_number(value) or int(value) != value:
            raise self._wrong(key, value, "a whole number")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number as float."""
        value = self._value(key, default)
        if not _is_number(value):
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
        if key not in self:
            return None
        value = self._value(key, None)
        if not isinstance(value, (bool, int)):
            raise self._wrong(key, value, "true or false")
        return bool(value)

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
        if len(values) > MOST_PARTS:
            raise self._wrong(key, values, f"at most {MOST_PARTS} numbers")
        if min(values) < 1 or max(values) > LARGEST_SIZE:
            raise self._wrong(key, list(values), f"numbers from 1 to {LARGEST_SIZE}")
        return values

    def integers(self, key: str) -> tuple[int, ...]:
        """Return an array of whole numbers; a missing one is empty."""
        values = self._array(key)
        if set(map(type, values)) <= {int}:
            return tuple(values)
        if not all(_is_number(value) and int(value) == value for value in values):
            raise self._wrong(key, values, "an array of whole numbers")
        return tuple(int(value) for value in values)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of strings; a missing one is empty."""
        values = self._array(key)
        if not set(map(type, values)) <= {str}:
            raise self._wrong(key, values, "an array of strings")
        return tuple(values)

    def _array(self, key: str) -> Sequence[Any]:
        value = self.values.get(self.prefix + key, ())
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
            raise self._wrong(key, value, "an array")
        return list(value)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(self.prefix + key, default)
        if value is None:
            raise ModelFileError(
                f"{self.where}: is incomplete, it has no key {self.prefix}{key}: if another program converted it,"
                " convert the checkpoint again with ./convert.py"
            )
        return value

    def _within(self, key: str, value: int, least: int, most: int) -> int:
        if value < least:
            raise self._wrong(key, value, f"at least {least}")
        if value > most:
            raise self._wrong(key, value, f"at most {most}")
        return value

    def _wrong(self, key: str, value: Any, wanted: str) -> ModelFileError:
        return ModelFileError(f"{self.where}: {self.prefix}{key} is {quoted(value)}, but must be {wanted}")


def require_halvings(channels: int, times: int, where: str) -> None:
    """Raise ModelFileError unless a decoder can halve its channels that often."""
    if channels % (1 << min(times, 62)):
        raise ModelFileError(f"{where}: the decoder has {channels} channels and halves them {times} times")


def require_frames(
    strides: Sequence[int], samples: int, where: str, part: str, *, exact: bool = True
) -> None:
    """Raise ModelFileError unless the product of the strides is a frame of so many samples, or divides it."""
    rest, left = divmod(samples, math.prod(strides))
    if left or not rest or (exact and rest != 1):
        raise ModelFileError(
            f"{where}: the strides {list(strides)} of the {part} do not make frames of {samples} samples"
        )


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value)
