"""Every error that a user of ggtts can meet.

`str(error)` is one clear line: what is wrong, the value that was given, and what is accepted. Commands print
exactly that line and end with `exit_code`; anything that is not a `GgttsError` is a defect of ggtts itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BEGIN, _END = "\ufdd0", "\ufdd1"
"""Around the name of a parameter in a message: characters that Unicode keeps out of texts, for use within programs."""
_MARKED = re.compile(f"{_BEGIN}(.*?){_END}")


@dataclass(frozen=True)
class Parameter:
    """A parameter as f-strings of errors name it (`core.parameters`): each reader is told the name that is known there.

    Attributes:
        name: what it is called in Python.
    """

    name: str

    def __str__(self) -> str:
        return f"{_BEGIN}{self.name}{_END}"


class GgttsError(Exception):
    """Base of all errors raised on purpose by ggtts."""

    exit_code: int = 1

    def __str__(self) -> str:
        return self.told({})

    def told(self, names: Mapping[Parameter, str]) -> str:
        """Return the message with these names of parameters, and those in Python of others."""
        return _MARKED.sub(lambda found: names.get(Parameter(found[1]), found[1]), super().__str__())


class UsageError(GgttsError):
    """A request that cannot be right: bad value or combination, unknown speaker or language, nothing to say."""

    exit_code = 2


class ModelFileError(GgttsError):
    """A model file that is missing, truncated, foreign, or of another architecture than expected."""


class AudioFileError(GgttsError):
    """An audio file that cannot be read or cannot be used."""


class TextError(GgttsError):
    """Text that cannot be decoded; the message names the byte offset."""


class OutputError(GgttsError):
    """The result cannot be written."""


class EngineError(GgttsError):
    """The device or its memory is not available, or a computation failed."""


def unknown_value(kind: str, value: str, accepted: Iterable[str], *, listed: int = 12) -> UsageError:
    """Return the error for a name that is not among the accepted ones, with its near matches.

    `kind` is what the name stands for ("speaker"). Up to `listed` accepted names are spelt out; of longer lists
    only the near matches are.
    """
    from difflib import get_close_matches

    names = sorted(accepted)
    if not names:
        return UsageError(f"unknown {kind} {value!r}: this model has none")
    by_folded = {name.casefold(): name for name in names}
    near = [by_folded[match] for match in get_close_matches(value.casefold(), by_folded, n=3)]
    message = f"unknown {kind} {value!r}"
    if near:
        message += f", did you mean {' or '.join(near)}?"
    if len(names) <= listed:
        message += f" (accepted: {', '.join(names)})"
    return UsageError(message)
