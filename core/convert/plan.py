"""What a converter decides before anything is written: metadata, tensors, and where their values come
from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from gguf import GGUFValueType

from ..errors import ModelFileError

MOST_MISSING = 10_000
"""Where so many tensors are missing, a configuration that is no model would go on asking for more."""


class TensorSource(Protocol):
    """Values that can be read a block of rows at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in PyTorch order."""

    @property
    def dtype(self) -> str:
        """Type in the checkpoint, by its safetensors name ("BF16")."""

    def rows(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return rows start..stop of the first axis as float32."""


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of the file to be written, under its GGUF name."""

    name: str
    source: TensorSource

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in NumPy order; the file lists it reversed."""
        return self.source.shape

    @property
    def elements(self) -> int:
        """Number of values."""
        return prod(self.shape)


@dataclass(frozen=True)
class MetadataEntry:
    """One key of a GGUF file with its value and type; `element` is the type of an array's elements."""

    key: str
    value: Any
    kind: GGUFValueType
    element: GGUFValueType | None = None


@dataclass
class Metadata:
    """Keys of a GGUF file in writing order. Empty strings and empty lists are left out, as GGUF tools do."""

    prefix: str = ""
    entries: list[MetadataEntry] = field(default_factory=list)

    def under(self, prefix: str) -> Metadata:
        """Return a view that adds its keys here, each behind a further prefix."""
        return Metadata(self.prefix + prefix, self.entries)

    def integer(self, key: str, value: int) -> None:
        """Add an unsigned 32-bit integer."""
        self._add(key, value, GGUFValueType.UINT32)

    def number(self, key: str, value: float) -> None:
        """Add a 32-bit float."""
        self._add(key, value, GGUFValueType.FLOAT32)

    def flag(self, key: str, value: bool) -> None:
        """Add a boolean."""
        self._add(key, value, GGUFValueType.BOOL)

    def text(self, key: str, value: str) -> None:
        """Add a string."""
        if value:
            self._add(key, value, GGUFValueType.STRING)

    def integers(self, key: str, values: Sequence[int]) -> None:
        """Add an array of signed 32-bit integers."""
        if values:
            self._add(key, list(values), GGUFValueType.ARRAY, GGUFValueType.INT32)

    def texts(self, key: str, values: Sequence[str]) -> None:
        """Add an array of strings."""
        if values:
            self._add(key, list(values), GGUFValueType.ARRAY, GGUFValueType.STRING)

    def _add(self, key: str, value: Any, kind: GGUFValueType, element: GGUFValueType | None = None) -> None:
        self.entries.append(MetadataEntry(self.prefix + key, value, kind, element))


@dataclass(frozen=True)
class ModelPlan:
    """Everything about one GGUF file but its values. `stem` is its usual file name without type and
    extension; a plan that is `float32` stays so whatever type a conversion is asked for."""

    architecture: str
    name: str
    stem: str
    metadata: Sequence[MetadataEntry]
    tensors: Sequence[PlannedTensor]
    warnings: Sequence[str] = ()
    float32: bool = False


def require_tensors(where: object, tensors: Iterable[PlannedTensor], required: Iterable[str]) -> None:
    """Raise ModelFileError unless every required GGUF name is among the tensors."""
    present = {tensor.name for tensor in tensors}
    missing = list(islice((name for name in required if name not in present), MOST_MISSING))
    if missing:
        raise ModelFileError(
            f"{where}: the checkpoint is incomplete, {len(missing)} tensors are missing (first: {missing[0]})"
        )
