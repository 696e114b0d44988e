"""Importance matrices of llama.cpp: how strongly each column of a weight is driven by real inputs.

A file holds, for each weight, the mean square of its inputs, column by column; quantisation then weighs the errors with
it. There are two formats: a GGUF file (`<name>.in_sum2` over `<name>.counts`), and the older one, counts and float32
values one behind the other, with the sums already divided by the number of chunks and multiplied by their count.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..engine import open_gguf
from ..errors import ModelFileError, UsageError
from ..formats.metadata import LARGEST_SIZE, Keys
from .gguf_header import GgufTensor

FloatArray = npt.NDArray[np.float32]

SUMS, COUNTS = ".in_sum2", ".counts"
CHUNKS_KEY = "imatrix.chunk_count"


@dataclass(frozen=True)
class Importance:
    """What an importance file says.

    Attributes:
        path: of the file.
        columns: by name of the weight, mean squares [width].
        chunks: how many pieces of input they are the mean of; 0 where the file does not say.
    """

    path: Path
    columns: Mapping[str, FloatArray]
    chunks: int = 0

    def of(self, name: str) -> FloatArray | None:
        """Return the importance [width] of a weight's columns; None where nothing is known of them."""
        return self.columns.get(name)

    def require_match(self, tensors: Sequence[GgufTensor], model: Path) -> None:
        """Raise UsageError unless the file is about this model: some names are the same, and all of those fit."""
        matching = [tensor for tensor in tensors if tensor.name in self.columns]
        if not matching:
            example = next(iter(self.columns), "none")
            raise UsageError(
                f"{self.path} is not about {model}: none of its {len(self.columns)} weights is in it "
                f"(it has {example!r}, the model {tensors[0].name!r})"
            )
        for tensor in matching:
            width = len(self.columns[tensor.name])
            if width != tensor.width:
                raise UsageError(
                    f"{self.path} is not about {model}: {tensor.name} has {width} columns in it, "
                    f"in the model {tensor.width}"
                )


def read_importance(path: Path) -> Importance:
    """Read an importance file of either format.

    Raises:
        ModelFileError: the file is missing, truncated or none, or holds values that are no importance.
    """
    try:
        with path.open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
        found = _read_gguf(path) if is_gguf else _read_legacy(path)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    for name, values in found.columns.items():
        if not np.isfinite(values).all() or (values < 0).any():
            raise ModelFileError(f"{path}: the importance of {name} is negative or no number")
    # Columns that were never driven say nothing; all of them together would leave no measure of the error.
    driven = {name: values for name, values in found.columns.items() if values.any()}
    if not driven:
        raise ModelFileError(f"{path}: holds no importance of any weight")
    return Importance(path, driven, found.chunks)


def _read_gguf(path: Path) -> Importance:
    file = open_gguf(str(path))
    columns = {}
    for name in (name for name in file.names if name.endswith(SUMS)):
        weight = name.removesuffix(SUMS)
        if weight + COUNTS not in file:
            raise ModelFileError(
                f"{path}: has no {weight + COUNTS}, so it is no importance file of llama.cpp"
            )
        sums, counts = file.array(name), file.array(weight + COUNTS)
        # Experts of a mixture have a row each; a weight of these models has one.
        if sums.ndim == 1:
            columns[weight] = _means(sums, counts.reshape(-1)[0])
    chunks = Keys(file.metadata, str(path)).integer(CHUNKS_KEY, 0)
    if not 0 <= chunks <= LARGEST_SIZE:
        raise ModelFileError(f"{path}: {CHUNKS_KEY} is {chunks}, which no file has")
    return Importance(path, columns, chunks)


def _means(sums: FloatArray, count: float) -> FloatArray:
    # What a damaged file holds may be no numbers; `read_importance` looks at the result.
    with np.errstate(all="ignore"):
        means: FloatArray = (sums / np.float32(max(float(count), 1.0))).astype(np.float32)
    return means


class _Legacy:
    """Reads the numbers of the older format one after the other."""

    def __init__(self, path: Path) -> None:
        self._path, self._data, self._position = path, path.read_bytes(), 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self._position:
            raise ModelFileError(f"{self._path}: is truncated, or no importance file of llama.cpp")
        self._position += size
        return self._data[self._position - size : self._position]

    def integer(self) -> int:
        return int(struct.unpack("<i", self.take(4))[0])

    @property
    def ended(self) -> bool:
        return self._position == len(self._data)


def _read_legacy(path: Path) -> Importance:
    data, columns = _Legacy(path), {}
    for _ in range(data.integer()):
        name = data.take(data.integer()).decode("utf-8", "replace")
        calls, width = data.integer(), data.integer()
        values = np.frombuffer(data.take(4 * max(width, 0)), "<f4").astype(np.float32)
        columns[name] = _means(values, calls)
    return Importance(path, columns, 0 if data.ended else data.integer())
