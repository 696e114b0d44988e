"""Streaming writer of GGUF files.

gguf-py writes the header, the metadata and the tensor table; the values follow a block of rows at a time, so
memory stays at a few times `BLOCK_VALUES` whatever the size of the model. A path either holds a whole model or what it
held before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from gguf import (
    GGUF_DEFAULT_ALIGNMENT,
    GGMLQuantizationType,
    GGUFWriter,
    quant_shape_to_byte_shape,
    quantize,
)

from ..formats.gguf_types import FILE_TYPE_KEY, FILE_TYPE_NUMBERS
from ..output_files import make_folder, part_file
from .plan import MetadataEntry, ModelPlan, PlannedTensor
from .quantize_policy import Variant, tensor_type

BLOCK_VALUES = 2 * 1024 * 1024
QUANTIZATION_VERSION = 2

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TypedTensor:
    """A planned tensor and the type it gets in the file."""

    planned: PlannedTensor
    kind: GGMLQuantizationType

    @property
    def byte_shape(self) -> tuple[int, ...]:
        """Shape with the last axis counted in bytes."""
        return tuple(int(size) for size in quant_shape_to_byte_shape(self.planned.shape, self.kind))

    @property
    def size(self) -> int:
        """Bytes in the file, without padding."""
        total = 1
        for length in self.byte_shape:
            total *= length
        return total

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the values in their final type, some rows of the first axis at a time."""
        source, shape = self.planned.source, self.planned.shape
        row_values = max(self.planned.elements // max(shape[0], 1), 1)
        step = max(BLOCK_VALUES // row_values, 1)
        for start in range(0, shape[0], step):
            yield encode(source.rows(start, min(start + step, shape[0])), self.kind)


def encode(values: npt.NDArray[np.float32], kind: GGMLQuantizationType) -> npt.NDArray[Any]:
    """Return float32 values in the storage of a GGML type; what F16 cannot hold becomes its largest value."""
    if kind is GGMLQuantizationType.F16:
        limit = np.finfo(np.float16).max
        return np.clip(values, -limit, limit).astype(np.float16)
    return quantize(np.ascontiguousarray(values), kind)


def write_gguf(path: Path, plan: ModelPlan, target: Variant, progress: Progress | None = None) -> None:
    """Write a planned model with the tensor types of `target`.

    `progress` is called with the bytes written so far and in all, at least once per tensor. Raises
    OutputError when the file cannot be written, ModelFileError when a source turns out unreadable; either
    leaves no file behind.
    """
    tensors = [TypedTensor(tensor, tensor_type(tensor.name, tensor.shape, target)) for tensor in plan.tensors]
    make_folder(path.parent)
    with part_file(path) as part:
        part.open().close()  # made here for its permissions; gguf-py opens it by its name
        _write_header(part.path, plan, _file_type_entries(target), tensors)
        with part.path.open("ab") as file:
            _write_values(file, tensors, progress or _no_progress)


def _no_progress(done: int, total: int) -> None:
    """Report to nobody."""


def _file_type_entries(target: Variant) -> dict[str, int]:
    if target.base is GGMLQuantizationType.F32:
        return {}
    return {
        "general.quantization_version": QUANTIZATION_VERSION,
        FILE_TYPE_KEY: FILE_TYPE_NUMBERS[target.name],
    }


def _write_header(path: Path, plan: ModelPlan, extra: dict[str, int], tensors: Sequence[TypedTensor]) -> None:
    writer = GGUFWriter(path, plan.architecture)
    try:
        writer.add_string("general.name", plan.name)
        for entry in plan.metadata:
            _add_entry(writer, entry)
        for key, value in extra.items():
            writer.add_uint32(key, value)
        for tensor in tensors:
            writer.add_tensor_info(
                tensor.planned.name,
                tensor.planned.shape,
                np.dtype(np.float32),
                tensor.size,
                raw_dtype=tensor.kind,
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
    finally:
        writer.close()


def _add_entry(writer: GGUFWriter, entry: MetadataEntry) -> None:
    writer.add_key_value(entry.key, entry.value, entry.kind, entry.element)


def _write_values(file: IO[bytes], tensors: Sequence[TypedTensor], progress: Progress) -> None:
    total, done = sum(tensor.size for tensor in tensors), 0
    _pad(file)
    for tensor in tensors:
        for block in tensor.blocks():
            block.tofile(file)
            done += block.nbytes
            progress(done, total)
        _pad(file)


def _pad(file: IO[bytes]) -> None:
    file.seek(0, os.SEEK_END)
    file.write(bytes(-file.tell() % GGUF_DEFAULT_ALIGNMENT))
