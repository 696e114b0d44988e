"""What an inspection found, ready to be printed as tables or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Value = str | int | float | bool | None | Sequence[str] | Mapping[str, int | float]
Facts = Mapping[str, Mapping[str, Value]]
"""Heading -> name -> value."""


@dataclass(frozen=True)
class TensorGroup:
    """The tensors of one type in one part of a model: how many, with how many values, in how many bytes."""

    part: str
    dtype: str
    tensors: int
    parameters: int
    bytes: int


@dataclass(frozen=True)
class Report:
    """What is known of a file or folder.

    Attributes:
        path: as it was given.
        size: bytes.
        what: what it is, in words: "a Qwen3-TTS talker, base, 0.6b".
        problem: why it cannot be used; None when it can.
        facts: what it says about itself.
        groups: its tensors by part and type, largest part first.
        oddities: what is unusual about it, one line each.
        run_with: command lines that use it.
    """

    path: str
    size: int
    what: str
    problem: str | None = None
    facts: Facts = field(default_factory=dict)
    groups: Sequence[TensorGroup] = ()
    oddities: Sequence[str] = ()
    run_with: Sequence[str] = ()

    @property
    def usable(self) -> bool:
        """Whether a program here can read it."""
        return self.problem is None

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"usable": self.usable, **asdict(self)}


def shell_word(value: Path | str) -> str:
    """Return a name as a command line has it."""
    return shlex.quote(str(value))


def group_tensors(tensors: Iterable[tuple[str, str, int, int]]) -> list[TensorGroup]:
    """Add up tensors, given as (part, type, values, bytes), by part and type."""
    sums: dict[tuple[str, str], list[int]] = {}
    for part, dtype, values, size in tensors:
        total = sums.setdefault((part, dtype), [0, 0, 0])
        for index, amount in enumerate((1, values, size)):
            total[index] += amount
    groups = [TensorGroup(part, dtype, *total) for (part, dtype), total in sums.items()]
    by_part: dict[str, int] = {}
    for group in groups:
        by_part[group.part] = by_part.get(group.part, 0) + group.bytes
    return sorted(groups, key=lambda group: (-by_part[group.part], group.part, -group.bytes))
