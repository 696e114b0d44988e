"""Small GGUF files for tests of quantisation: every kind of tensor, in a few rows."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, GGUFWriter

Arrays = Mapping[str, npt.NDArray[np.float32]]


def talker_arrays(seed: int = 0) -> dict[str, npt.NDArray[np.float32]]:
    """A piece of a talker of eight layers whose rows are of 256, 64 or 5 values."""
    random = np.random.default_rng(seed)

    def values(*shape: int) -> npt.NDArray[np.float32]:
        return random.standard_normal(shape).astype(np.float32)

    arrays = {
        "talker.text_embd.weight": values(40, 256),
        "talker.codec_embd.weight": values(24, 256),
        "talker.codec_head.weight": values(24, 256),
        "talker.text_proj.fc1.weight": values(8, 64),
        "talker.output_norm.weight": values(256),
        "code_pred.blk.0.attn_v.weight": values(8, 256),
        "code_pred.blk.0.attn_q.weight": values(8, 64),
        "spk_enc.conv0.weight": values(6, 4, 5),
        "spk_enc.fc.weight": values(6, 32, 1),
    }
    for layer in range(8):
        arrays[f"talker.blk.{layer}.attn_q.weight"] = values(16, 256)
        arrays[f"talker.blk.{layer}.attn_v.weight"] = values(8, 256)
    return arrays


def write_model(
    path: Path,
    arrays: Arrays,
    architecture: str = "qwen3-tts",
    *,
    layers: int = 8,
    alignment: int | None = None,
    dtype: type[np.generic] = np.float32,
) -> Path:
    """Write arrays as a GGUF file with some metadata of every kind."""
    writer = GGUFWriter(path, architecture)
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_string("general.name", "tiny ✓")
    writer.add_uint32(f"{architecture}.talker.block_count", layers)
    writer.add_float32("test.number", 0.1)
    writer.add_bool("test.flag", True)
    writer.add_array("test.words", ["eins", "zwei", ""])
    writer.add_array("test.integers", [1, -2, 3])
    for name, array in arrays.items():
        writer.add_tensor(name, array.astype(dtype) if array.ndim > 1 else array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def stored_bytes(path: Path) -> dict[str, bytes]:
    """Return the bytes of every tensor as they lie in the file."""
    return {tensor.name: tensor.data.tobytes() for tensor in GGUFReader(path).tensors}


def stored_types(path: Path) -> dict[str, str]:
    """Return the type of every tensor."""
    return {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(path).tensors}


def write_old_importance(path: Path, columns: Arrays, calls: int = 3) -> Path:
    """Write an importance file in llama.cpp's older format: sums are means times calls."""
    data = struct.pack("<i", len(columns))
    for name, values in columns.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", calls, len(values))
        data += (values * np.float32(calls)).astype("<f4").tobytes()
    path.write_bytes(data + struct.pack("<ii", 5, 4) + b"text")
    return path


def write_importance(path: Path, columns: Arrays, counts: Sequence[float] = (4.0,)) -> Path:
    """Write an importance file in llama.cpp's GGUF format."""
    writer = GGUFWriter(path, "none")
    writer.add_type("imatrix")
    writer.add_uint32("imatrix.chunk_count", 5)
    for name, values in columns.items():
        writer.add_tensor(f"{name}.in_sum2", (values * np.float32(counts[0]))[None])
        writer.add_tensor(f"{name}.counts", np.array([counts], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
