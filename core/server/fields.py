"""The fields of a JSON body: each checks its value, and describes itself for the OpenAPI schema.

null is the same as leaving a field out, and fields that are not known are ignored: clients send what their other
servers take.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ApiError, invalid


@dataclass(frozen=True)
class Field(ABC):
    """A field of a JSON object.

    Attributes:
        name: its key.
        about: what it means, for the schema.
        required: it has to be there.
    """

    name: str
    about: str
    required: bool = False

    @property
    @abstractmethod
    def kind(self) -> dict[str, Any]:
        """The JSON schema of a value that is not null."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return a value that is not null in the form that the server uses; raise ApiError if it cannot be."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the field."""
        if self.required:
            return {**self.kind, "description": self.about}
        return {"anyOf": [self.kind, {"type": "null"}], "description": self.about}

    def wrong(self, value: Any, expected: str) -> ApiError:
        """Return the error of a value that is not what is expected."""
        return invalid(f"{self.name} is {_shown(value)}: it must be {expected}", self.name)


_NOT_BLANK = (
    r"[^\u0000\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""A regular expression of something that `str.strip` leaves, written out: what `\\S` means differs among validators."""
_ANY = r"[^\u0000]*"


@dataclass(frozen=True)
class Text(Field):
    """A text; one that is needed must have something in it besides white space."""

    longest: int = 4096

    @property
    def kind(self) -> dict[str, Any]:
        length = {"minLength": int(self.required), "maxLength": self.longest}
        inside = f"{_NOT_BLANK}{_ANY}" if self.required else ""
        return {"type": "string", **length, "pattern": f"^{_ANY}{inside}$"}

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.wrong(value, "a string")
        if len(value) > self.longest:
            raise invalid(
                f"{self.name} has {len(value)} characters: at most {self.longest} are accepted",
                self.name,
                "string_above_max_length",
            )
        if self.required and not value.strip():
            raise invalid(f"{self.name} is empty: there is nothing in it", self.name, "empty_string")
        require_unicode(value, self.name)
        nul = value.find("\0")
        if nul >= 0:
            raise invalid(f"{self.name} has a NUL, which no text contains, at character {nul}", self.name)
        return value


@dataclass(frozen=True)
class Choice(Field):
    """One of several words."""

    words: tuple[str, ...] = ()

    @property
    def kind(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise self.wrong(value, f"one of {', '.join(self.words)}")
        return value


@dataclass(frozen=True)
class Number(Field):
    """A number of a range."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    """`least` itself is out of the range."""

    @property
    def kind(self) -> dict[str, Any]:
        lowest = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", lowest: self.least, "maximum": self.most}

    def check(self, value: Any) -> float:
        range_ = f"above {self.least:g}, up" if self.above else f"from {self.least:g}"
        expected = f"a number {range_} to {self.most:g}"
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(value, expected)
        if not self.least <= value <= self.most or (self.above and value == self.least):
            raise self.wrong(value, expected)
        return float(value)


@dataclass(frozen=True)
class Whole(Field):
    """A whole number of a range."""

    least: int = 0
    most: int = 2**31 - 1

    @property
    def kind(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def check(self, value: Any) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or not self.least <= value <= self.most:
            raise self.wrong(value, f"a whole number from {self.least} to {self.most}")
        return int(value)


@dataclass(frozen=True)
class VoiceName(Field):
    """The name of a voice, or an object with it, as OpenAI's clients name custom voices."""

    longest: int = 256

    @property
    def kind(self) -> dict[str, Any]:
        name = {"type": "string", "maxLength": self.longest}
        custom = {"type": "object", "properties": {"id": name}, "required": ["id"]}
        return {"anyOf": [name, custom]}

    def check(self, value: Any) -> str:
        name = value.get("id") if isinstance(value, dict) else value
        if not isinstance(name, str):
            raise self.wrong(value, 'the name of a voice, or {"id": "the name"}')
        if len(name) > self.longest:
            raise invalid(f"{self.name} has {len(name)} characters: no voice has", self.name)
        require_unicode(name, self.name)
        return name.strip()


def check_fields(body: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, Any]:
    """Return the values of the known fields that a JSON object has.

    Raises:
        ApiError: one that is needed is missing, or a value cannot be.
    """
    values: dict[str, Any] = {}
    for field in fields:
        value = body.get(field.name)
        if value is not None:
            values[field.name] = field.check(value)
        elif field.required:
            raise invalid(f"{field.name} is missing", field.name, "missing_required_parameter")
    return values


def object_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the JSON schema of an object with these fields."""
    properties = {field.name: field.schema for field in fields}
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields if field.required],
    }


_SURROGATE = re.compile("[\ud800-\udfff]")


def require_unicode(text: str, name: str) -> None:
    """Refuse half of a surrogate pair, which JSON can write and no text contains."""
    found = _SURROGATE.search(text)
    if found:
        raise invalid(
            f"{name} is not Unicode: half a surrogate pair, \\u{ord(found[0]):04x}, at character {found.start()}",
            name,
        )


def _shown(value: Any) -> str:
    """A value as an error may repeat it: short, and on one line."""
    text = repr(value) if isinstance(value, (str, int, float, bool)) else _JSON_NAMES[type(value)]
    return text if len(text) <= 80 else f"{text[:77]}..."


_JSON_NAMES = {dict: "an object", list: "a list", type(None): "null"}
