"""Files that people have and that are none of ours: other programs' models, failed downloads, damaged copies."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter

OTHER_TALKER_KEYS: Mapping[str, int | float] = {
    "qwen3-tts.block_count": 2,
    "qwen3-tts.embedding_length": 64,
    "qwen3-tts.attention.head_count": 4,
    "qwen3-tts.num_code_groups": 16,
    "qwen3-tts.text_vocab_size": 640,
    "qwen3-tts.code_predictor.layer_count": 2,
    "qwen3-tts.rope.freq_base": 1e6,
}
"""How another converter of Qwen3-TTS calls the sizes, in a file of the same architecture and tensor names."""


def write_gguf(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any] | None = None,
    tensors: tuple[str, ...] = ("a.weight",),
) -> Path:
    """Write a GGUF file of an architecture with some keys and small tensors of these names."""
    writer = GGUFWriter(path, architecture)
    for key, value in (keys or {}).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    for name in tensors:
        writer.add_tensor(name, np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def foreign_files(folder: Path) -> dict[Path, str]:
    """Write one file of each kind into a folder; return what a message must say of each."""
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    plain = {
        "lfs.gguf": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer"),
        "ggml-base.bin": (b"lmgg" + bytes(60), "whisper.cpp"),
        "old.gguf": (b"tjgg" + bytes(60), "old llama.cpp"),
        "model.pt": (b"PK\x03\x04" + bytes(60), "PyTorch"),
        "page.gguf": (b"<!DOCTYPE html><html>", "web page"),
        "config.json": (b'{"model_type": "qwen3_tts"}', "JSON"),
        "voice.wav": (b"RIFF\x00\x00\x00\x00WAVEfmt ", "WAV recording"),
        "text.gguf": (b"hello there, this is no model", "not a GGUF file"),
        "empty.gguf": (b"", "empty"),
        "short.gguf": (b"GGUF\x03\x00\x00\x00", "damaged or truncated"),
        "model.safetensors": (struct.pack("<Q", len(header)) + header + bytes(4), "safetensors"),
    }
    found = {}
    for name, (content, words) in plain.items():
        (folder / name).write_bytes(content)
        found[folder / name] = words
    return found | _foreign_models(folder)


def _foreign_models(folder: Path) -> dict[Path, str]:
    names = ("token_embd.weight", "blk.0.attn_q.weight")
    return {
        write_gguf(folder / "llama.gguf", "llama", {"llama.block_count": 1}, names): "llama.cpp",
        write_gguf(folder / "qwen3.gguf", "qwen3", {"qwen3.block_count": 1}, names): "llama.cpp",
        write_gguf(folder / "whisper.gguf", "whisper"): "Whisper",
        write_gguf(folder / "other.gguf", "qwen3tts", OTHER_TALKER_KEYS): "another program",
        write_gguf(folder / "mine.gguf", "my-\x1b[31mmodel"): "architecture",
        write_gguf(folder / "lora.gguf", "llama", {"general.type": "adapter"}): "adapter",
    }
