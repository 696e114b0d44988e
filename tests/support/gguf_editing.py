"""Changed copies of GGUF files: other metadata, other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

Change = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def edit_gguf(
    source: Path,
    target: Path,
    metadata: Mapping[str, Any] | None = None,
    *,
    change: Change | None = None,
    changed_types: tuple[str, ...] = (),
    rename: Callable[[str], str | None] = lambda name: name,
) -> Path:
    """Write a changed copy of a GGUF file, and return its path.

    Args:
        source: the file.
        target: the copy.
        metadata: keys to set: strings (also as bytes), numbers, lists. None removes a key.
        change: what to do with the values of tensors whose type is one of `changed_types`; they become float32.
        changed_types: names such as "Q8_0".
        rename: what tensors are called in the copy; None leaves one out.
    """
    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    _write_metadata(reader, writer, metadata or {})
    for tensor in reader.tensors:
        name = rename(tensor.name)
        if name is None:
            continue
        if change and tensor.tensor_type.name in changed_types:
            values = dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(name, np.ascontiguousarray(change(values), np.float32))
        else:
            writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _write_metadata(reader: GGUFReader, writer: GGUFWriter, changes: Mapping[str, Any]) -> None:
    for key, field in reader.fields.items():
        if key in changes or key.startswith("GGUF.") or key == "general.architecture":
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], element)
    for key, value in changes.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, bytes):
            writer.add_key_value(key, value, GGUFValueType.STRING)
        elif value is not None:
            writer.add_array(key, value)


def coarse(bits: int, block: int = 32) -> Change:
    """Return a change that leaves so many bits of each value, with a scale of its own for each block of a row."""

    def round_values(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        blocks = values.reshape(-1, block)
        scales = np.abs(blocks).max(1, keepdims=True) / (2 ** (bits - 1) - 1) + 1e-12
        rounded: npt.NDArray[np.float32] = (np.round(blocks / scales) * scales).reshape(values.shape)
        return rounded

    return round_values
