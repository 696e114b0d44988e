"""Safetensors files for tests, written by hand so that headers can be wrong and values absent."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "BOOL": 1, "I64": 8}


def header_bytes(entries: Mapping[str, object]) -> bytes:
    """Return the length and the JSON header of a safetensors file."""
    raw = json.dumps(entries).encode()
    return struct.pack("<Q", len(raw)) + raw


def write_hollow(path: Path, tensors: Sequence[tuple[str, str, Sequence[int]]]) -> None:
    """Write (name, dtype, shape) tensors without values: a sparse file of full length that takes no disk space."""
    entries: dict[str, object] = {}
    offset = 0
    for name, dtype, shape in tensors:
        size = prod(shape) * ITEM_BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    header = header_bytes(entries)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + offset)


def write_values(path: Path, tensors: Mapping[str, tuple[str, npt.NDArray[np.generic]]]) -> None:
    """Write name -> (dtype, values); values of a BF16 tensor are its bit patterns."""
    entries: dict[str, object] = {}
    offset = 0
    for name, (dtype, values) in tensors.items():
        end = offset + values.nbytes
        entries[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    path.write_bytes(header_bytes(entries) + b"".join(values.tobytes() for _, values in tensors.values()))
