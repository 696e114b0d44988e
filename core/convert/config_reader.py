"""Checked access to the JSON files of a Hugging Face model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFileError


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
    except ValueError:
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
        """Return a whole number that is not negative."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 0:
            raise self._wrong(key, "a whole number")
        return int(value)

    def number(self, key: str) -> float:
        """Return a number as float."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
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
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def integers(self, key: str) -> list[int]:
        """Return a list of whole numbers."""
        value = self._value(key)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self._wrong(key, "a list of whole numbers")
        return list(value)

    def numbers(self, key: str) -> list[float]:
        """Return a list of numbers as floats."""
        value = self._value(key)
        if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
            raise self._wrong(key, "a list of numbers")
        return [float(item) for item in value]

    def integer_table(self, key: str) -> dict[str, int]:
        """Return an object of whole numbers in file order; a missing one is empty."""
        if key not in self:
            return {}
        nested = self.section(key)
        return {name: nested.integer(name) for name in nested.values}

    def _value(self, key: str) -> Any:
        value = self.values.get(key)
        if value is None:
            raise ModelFileError(f"{self.path}: has no {self.place}{key}")
        return value

    def _wrong(self, key: str, wanted: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {self.place}{key} is {self.values[key]!r}, but must be {wanted}")
