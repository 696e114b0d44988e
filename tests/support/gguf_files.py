"""GGUF files as tests see them: through gguf-py, and through the listings of the C++ converter's output."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader


def read_metadata(path: Path) -> dict[str, Any]:
    """Return all keys of a GGUF file as Python values."""
    fields = GGUFReader(path).fields
    return {key: field.contents() for key, field in fields.items() if not key.startswith("GGUF.")}


@dataclass(frozen=True)
class Listing:
    """One listing: key -> (type, stated value or length), tensor -> (dtype, numpy shape), both in file order."""

    keys: dict[str, tuple[str, Any]]
    tensors: dict[str, tuple[str, tuple[int, ...]]]

    @classmethod
    def read(cls, path: Path) -> Listing:
        """Parse a listing of tests/data/gguf."""
        keys: dict[str, tuple[str, Any]] = {}
        tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = line.split("\t")
            if line.startswith("#") or line.startswith("GGUF."):
                continue
            if len(fields) == 3:
                keys[fields[0]] = (fields[1], _value(fields[1], fields[2]))
            else:
                name, dtype, shape = fields[:3]
                tensors[name] = (dtype, tuple(reversed(ast.literal_eval(shape))))
        return cls(keys, tensors)


def _value(kind: str, text: str) -> Any:
    """Return a scalar's value; of an array its length, and its values where the listing has them all."""
    if not kind.startswith("ARRAY"):
        return ast.literal_eval(text)
    length, _, items = text.partition(" ")
    count = int(length.strip("[]"))
    return (count, None if items.endswith("...") else ast.literal_eval(items))
