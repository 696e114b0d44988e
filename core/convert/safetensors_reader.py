"""Reading of safetensors checkpoints, one or many files, without PyTorch and without loading them.

The container is the one of https://github.com/huggingface/safetensors: an eight-byte little-endian header length, a
JSON header (name -> dtype, shape, data_offsets), then the raw little-endian values. Only headers are read when a
checkpoint is opened; values are read a block of rows at a time, so memory does not grow with the checkpoint.
bfloat16, which NumPy does not have, is widened to float32 exactly.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from ..formats.kinds import quoted

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
HEADER_LIMIT = 100_000_000
MOST_AXES = 8

STORAGE_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


def widen_bfloat16(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Return bfloat16 bit patterns as float32: a bfloat16 is the upper half of a float32, so this is exact."""
    wide: npt.NDArray[np.float32] = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint: where its values lie, and how they are read.

    `dtype` is the safetensors name ("BF16"), `shape` is in PyTorch order, `offset` counts bytes from the file's start.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset: int

    @property
    def row_length(self) -> int:
        """Values per step of the first axis."""
        return prod(self.shape[1:])

    def rows(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return rows start..stop of the first axis as float32; a tensor without axes counts as one row."""
        stored = STORAGE_TYPES[self.dtype]
        count = (stop - start) * self.row_length
        position = self.offset + start * self.row_length * stored.itemsize
        values = np.fromfile(self.path, dtype=stored, count=count, offset=position)
        if values.size != count:
            raise ModelFileError(
                f"{self.path}: truncated, tensor {self.name!r} ends beyond the end of the file"
            )
        wide = widen_bfloat16(values) if self.dtype == "BF16" else values.astype(np.float32, copy=False)
        return wide.reshape((stop - start, *self.shape[1:]))

    def read(self) -> npt.NDArray[np.float32]:
        """Return all values as float32 in the tensor's own shape."""
        return self.rows(0, self.shape[0] if self.shape else 1).reshape(self.shape)


class Checkpoint:
    """The tensors of a model folder, by name, in the order of the files and of the values inside them."""

    def __init__(self, folder: Path, tensors: dict[str, StoredTensor]):
        self.folder = folder
        self._tensors = tensors

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Read the headers of a folder's `model.safetensors`, or of all files of its index.

        Raises ModelFileError when there is neither, or when a file is missing, truncated or not safetensors.
        """
        tensors: dict[str, StoredTensor] = {}
        for path in _checkpoint_files(folder):
            for tensor in read_header(path):
                if tensor.name in tensors:
                    raise ModelFileError(
                        f"{path}: tensor {tensor.name!r} is also in {tensors[tensor.name].path.name}"
                    )
                tensors[tensor.name] = tensor
        return cls(folder, tensors)

    def __iter__(self) -> Iterator[StoredTensor]:
        return iter(self._tensors.values())

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> StoredTensor:
        """Return the named tensor; ModelFileError when the checkpoint has none of that name."""
        try:
            return self._tensors[name]
        except KeyError:
            raise ModelFileError(f"{self.folder}: the checkpoint has no tensor {name!r}") from None


def _checkpoint_files(folder: Path) -> list[Path]:
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelFileError(f"{folder}: holds neither {SINGLE_FILE} nor {INDEX_FILE}")
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        if not names or not isinstance(names[0], str):
            raise ValueError("no names")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(
            f"{index}: is not a safetensors index (no weight_map that names files)"
        ) from None
    paths = [folder / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ModelFileError(
            f"{folder}: {INDEX_FILE} names {quoted(missing[0])}, which is missing ({len(missing)} missing)"
        )
    return paths


def read_header(path: Path) -> list[StoredTensor]:
    """Return the tensors that a safetensors file declares, in the order of their values.

    Raises ModelFileError when the file is foreign, truncated, or declares types or sizes that cannot be.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(HEADER_LIMIT, max(size - 8, 0)):
                raise ModelFileError(f"{path}: is not a safetensors file, or is truncated ({size} bytes)")
            header = json.loads(file.read(length))
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path}: is not a safetensors file (its header is not JSON)") from None
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: is not a safetensors file (its header is not a table)")
    header.pop("__metadata__", None)
    tensors = [_stored_tensor(path, name, entry, 8 + length, size) for name, entry in header.items()]
    return sorted(tensors, key=lambda tensor: tensor.offset)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _stored_tensor(path: Path, name: str, entry: Any, data_start: int, file_size: int) -> StoredTensor:
    try:
        dtype, shape = str(entry["dtype"]), tuple(_whole(size) for size in entry["shape"])
        begin, end = (_whole(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(
            f"{path}: the header entry of {quoted(name)} is not one of safetensors"
        ) from None
    if len(shape) > MOST_AXES:
        raise ModelFileError(f"{path}: tensor {quoted(name)} has {len(shape)} axes")
    if dtype not in STORAGE_TYPES:
        known = ", ".join(STORAGE_TYPES)
        raise ModelFileError(
            f"{path}: tensor {quoted(name)} has type {quoted(dtype)}, which cannot be read (known: {known})"
        )
    if min(shape, default=0) < 0 or end - begin != prod(shape) * STORAGE_TYPES[dtype].itemsize or begin < 0:
        raise ModelFileError(
            f"{path}: tensor {quoted(name)} declares {quoted(end - begin)} bytes, which its shape and type are not"
        )
    if data_start + end > file_size:
        missing = data_start + end - file_size
        raise ModelFileError(
            f"{path}: truncated, tensor {quoted(name)} ends {quoted(missing)} bytes beyond the end of the file"
        )
    return StoredTensor(name, dtype, shape, path, data_start + begin)
