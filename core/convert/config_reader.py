"""Checked access to the JSON files of a Hugging Face model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFileError
from ..formats.kinds import is_text, quoted
from ..formats.metadata import MOST_PARTS

LARGEST_INTEGER = 2**32 - 1
LARGEST_SIGNED = 2**31 - 1
LARGEST_NUMBER = 3e38
"""Of a float32."""


def read_text(path: Path) -> str:
    """Return a UTF-8 text file as it is; ModelFileError when it is missing or is no UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"{path}: is missing") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path}: is not UTF-8 text") from None


def read_json(path: Path) -> Section:
    """Return a JSON file that holds one object; ModelFileError when it is missing or holds anything else."""
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path}: is not JSON") from None
    if not isinstance(values, dict):
        raise ModelFileError(f"{path}: does not hold a JSON object")
    return Section(path, values)


@dataclass(frozen=True)
class Section:
    """An object inside a JSON file, with its place in the file for error messages. Every value may be missing
    or of the wrong type: each accessor raises ModelFileError that names file and key."""

    path: Path
    values: Mapping[str, Any]
    place: str = ""

    def __contains__(self, key: object) -> bool:
        return self.values.get(key) is not None if isinstance(key, str) else False

    def section(self, key: str) -> Section:
        """Return the nested object under `key`."""
        value = self._value(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Section(self.path, value, f"{self.place}{key}.")

    def optional_section(self, key: str) -> Section | None:
        """Return the nested object under `key`, or None where it is missing or null."""
        return self.section(key) if key in self else None

    def integer(self, key: str) -> int:
        """Return a whole number that is not negative and fits 32 bits, as GGUF stores it."""
        value = self._value(key)
        if not _is_number(value) or value != int(value) or not 0 <= value <= LARGEST_INTEGER:
            raise self._wrong(key, "a whole number")
        return int(value)

    def size(self, key: str) -> int:
        """Return a whole number of at least 1."""
        value = self.integer(key)
        if value < 1:
            raise self._wrong(key, "at least 1")
        return value

    def count(self, key: str) -> int:
        """Return how many there are of something that consists of tensors: layers, codebooks."""
        value = self.size(key)
        if value > MOST_PARTS:
            raise self._wrong(key, f"at most {MOST_PARTS}")
        return value

    def number(self, key: str) -> float:
        """Return a finite number as float."""
        value = self._value(key)
        if not _is_number(value):
            raise self._wrong(key, "a number")
        return float(value)

    def flag(self, key: str) -> bool:
        """Return a boolean."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._value(key)
        if not isinstance(value, str) or not is_text(value):
            raise self._wrong(key, "a string")
        return value

    def integers(self, key: str) -> list[int]:
        """Return a list of whole numbers that fit 32 bits."""
        value = self._value(key)
        if not isinstance(value, list) or not all(
            type(item) is int and abs(item) <= LARGEST_SIGNED for item in value
        ):
            raise self._wrong(key, "a list of whole numbers")
        return list(value)

    def numbers(self, key: str) -> list[float]:
        """Return a list of numbers as floats."""
        value = self._value(key)
        if not isinstance(value, list) or not all(_is_number(item) for item in value):
            raise self._wrong(key, "a list of numbers")
        return [float(item) for item in value]

    def integer_table(self, key: str) -> dict[str, int]:
        """Return an object of whole numbers in file order; a missing one is empty."""
        if key not in self:
            return {}
        nested = self.section(key)
        if not all(is_text(name) for name in nested.values):
            raise self._wrong(key, "a table of text")
        table = {name: nested.integer(name) for name in nested.values}
        if max(table.values(), default=0) > LARGEST_SIGNED:
            raise self._wrong(key, "a table of numbers that fit 31 bits")
        return table

    def _value(self, key: str) -> Any:
        value = self.values.get(key)
        if value is None:
            raise ModelFileError(f"{self.path}: has no {self.place}{quoted(key)[1:-1]}")
        return value

    def _wrong(self, key: str, wanted: str) -> ModelFileError:
        return ModelFileError(
            f"{self.path}: {self.place}{quoted(key)[1:-1]} is {quoted(self.values[key])}, but must be {wanted}"
        )


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= LARGEST_NUMBER  # false for NaN too
