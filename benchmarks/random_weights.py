"""Random weights, made directly in the storage of a GGML type.

Quantising a large model takes minutes and a quantiser; filling blocks with random bits takes seconds and gives the
kernels the same work. Equal shapes share one random pattern, in memory and in all layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

PATTERN_VALUES = 1 << 22
UNIFORM_INT8_DEVIATION = 127 / np.sqrt(3)

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class RandomTensor:
    """A tensor to be filled: normal values of deviation `std` around `mean`, or constant where `std` is 0.

    `shape` is in NumPy order. Row `zero_row` is zero.
    """

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0
    zero_row: int | None = None


class WeightPatterns:
    """Makes the storage of random tensors, uint8 [rows, bytes per row], and shares equal ones.

    Values depend on the seed and on what the tensor looks like, not on its name or on what was made before.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made: dict[tuple[Any, ...], Bytes] = {}

    def storage(self, tensor: RandomTensor, kind: GGMLQuantizationType) -> Bytes:
        """Return the bytes of a tensor in type `kind`. Shared: not to be written to."""
        key = (tensor.shape, tensor.std, tensor.mean, kind)
        if key not in self._made:
            self._made[key] = self._rows(tensor, kind)
        rows = self._made[key]
        if tensor.zero_row is not None:
            rows = rows.copy()
            rows[tensor.zero_row] = 0
        return rows

    def _rows(self, tensor: RandomTensor, kind: GGMLQuantizationType) -> Bytes:
        """Fill the tensor, repeating one block of rows when it is large."""
        kinship = repr((tensor.shape, tensor.std, tensor.mean)).encode()
        random = np.random.default_rng([self._seed, crc32(kinship)])
        width, rows = tensor.shape[-1], prod(tensor.shape[:-1])
        distinct = min(rows, max(1, PATTERN_VALUES // width))
        pattern = _encoded(random, distinct * width, tensor, kind).reshape(distinct, -1)
        repeats = -(-rows // distinct)
        return np.tile(pattern, (repeats, 1))[:rows] if repeats > 1 else pattern


def _encoded(
    random: np.random.Generator, count: int, tensor: RandomTensor, kind: GGMLQuantizationType
) -> Bytes:
    """Return `count` values in type `kind`; quantised ones are uniform and centred, of the same deviation."""
    if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16):
        return _plain(_normal(random, count, tensor), kind)
    block_values, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (count // block_values, block_bytes), np.uint8)
    scale_blocks = {
        GGMLQuantizationType.Q8_0: _scale_q8_0,
        GGMLQuantizationType.Q4_K: _scale_q4_k,
        GGMLQuantizationType.Q6_K: _scale_q6_k,
    }[kind]
    scale_blocks(blocks, tensor.std)
    return blocks.reshape(-1)


def _normal(random: np.random.Generator, count: int, tensor: RandomTensor) -> npt.NDArray[np.float32]:
    if tensor.std == 0:
        return np.full(count, tensor.mean, np.float32)
    return random.standard_normal(count, np.float32) * np.float32(tensor.std) + np.float32(tensor.mean)


def _plain(values: npt.NDArray[np.float32], kind: GGMLQuantizationType) -> Bytes:
    if kind is GGMLQuantizationType.F16:
        return values.astype(np.float16).view(np.uint8)
    if kind is GGMLQuantizationType.BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.view(np.uint8)


def _half(value: float) -> Bytes:
    return np.array([value], np.float16).view(np.uint8)


def _scale_q8_0(blocks: Bytes, std: float) -> None:
    """f16 d, int8 q[32]: x = d q."""
    blocks[:, :2] = _half(std / UNIFORM_INT8_DEVIATION)


def _scale_q4_k(blocks: Bytes, std: float) -> None:
    """f16 d, f16 dmin, 8 six-bit scales and minima, q[256]: x = d scale q - dmin minimum, q in 0..15.

    All scales and minima are 1 here; their high bits share bytes with the low ones, and are zero.
    """
    step = std / np.sqrt((16**2 - 1) / 12)
    blocks[:, :2] = _half(step)
    blocks[:, 2:4] = _half(7.5 * step)
    blocks[:, 4:12] = 1
    blocks[:, 12:16] = 0x11


def _scale_q6_k(blocks: Bytes, std: float) -> None:
    """ql[128], qh[64], int8 scales[16], f16 d: x = d scale q, q in -32..31."""
    blocks[:, 192:208] = 1
    blocks[:, 208:210] = _half(std / np.sqrt((64**2 - 1) / 12))
