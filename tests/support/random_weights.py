"""GGUF files with random weights, for tests of single layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from support.reference_transformer import Sizes

Arrays = dict[str, np.ndarray]


def write_weights(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write float32 or float16 arrays as the tensors of a GGUF file."""
    writer = GGUFWriter(path, "test")
    for name, array in arrays.items():
        writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def transformer_weights(sizes: Sizes, seed: int = 0) -> Arrays:
    """Weights of a whole transformer by name, blk.0 and on, with query/key norms and layer scales."""
    arrays: Arrays = {}
    for layer in range(sizes.layers):
        arrays |= {f"blk.{layer}.{name}": array for name, array in block_weights(sizes, seed + layer).items()}
    return arrays


def block_weights(sizes: Sizes, seed: int) -> Arrays:
    """Weights of one block by name."""
    random = np.random.default_rng(seed)

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return (random.standard_normal((outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)

    def vector(size: int) -> np.ndarray:
        return random.uniform(0.5, 1.5, size).astype(np.float32)

    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    return {
        "attn_norm.weight": vector(sizes.width),
        "attn_q.weight": matrix(queries, sizes.width),
        "attn_k.weight": matrix(keys, sizes.width),
        "attn_v.weight": matrix(keys, sizes.width),
        "attn_output.weight": matrix(sizes.width, queries),
        "attn_q_norm.weight": vector(sizes.head_dim),
        "attn_k_norm.weight": vector(sizes.head_dim),
        "attn_scale": vector(sizes.width),
        "ffn_norm.weight": vector(sizes.width),
        "ffn_gate.weight": matrix(sizes.ffn_width, sizes.width),
        "ffn_up.weight": matrix(sizes.ffn_width, sizes.width),
        "ffn_down.weight": matrix(sizes.width, sizes.ffn_width),
        "ffn_scale": vector(sizes.width),
    }
