"""Several sequences side by side in one run, each of which sees all of itself and nothing of the others.

Matrix products then read the weights once for all of them, and no sequence is padded to the length of another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from ..engine import Tensor
from .attention import attend_to_all, plain_attention
from .config import TransformerConfig


class AttentionKind(Enum):
    """How sequences side by side are attended to."""

    FUSED = auto()
    """The operation of the CPU, which is told the number of keys; what has a bias is done as in PLAIN."""
    FLASH = auto()
    """GGML's flash attention: GPUs round keys and values to float16, the CPU does not."""
    PLAIN = auto()
    """Matrix products and a softmax, in float32."""


@dataclass(frozen=True)
class Part:
    """One of the sequences, or several of them that a bias hides from each other.

    Attributes:
        length: its positions.
        count: int32 [1], the same number for the fused attention; None has matrix products and a softmax do it.
        bias: [length, length], added to the scaled products of a query (second axis) with the keys; None for none.
            float32, or float16 for flash attention.
        flash: whether flash attention does it.
    """

    length: int
    count: Tensor | None = None
    bias: Tensor | None = None
    flash: bool = False


def side_by_side(lengths: Sequence[int], biases: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float16]:
    """Return the bias [positions, positions] of sequences as one part: their own ones, and -inf between them."""
    total, start = sum(lengths), 0
    result = np.full((total, total), -np.inf, np.float16)
    for length, bias in zip(lengths, biases, strict=True):
        own = slice(start, start + length)
        result[own, own] = 0 if bias is None else bias
        start += length
    return result


class JoinedSequences:
    """Memory of layers that see the positions of this one run: every one those of its own sequence, in both
    directions."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    @property
    def sight(self) -> JoinedSequences:
        """What the positions see, which is all there is to know here."""
        return self

    def layer(self, index: int) -> JoinedSequences:
        """Return the memory of one layer, the same for all."""
        return self

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [head_dim, tokens, kv_heads] as they are."""
        return keys, values

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, config: TransformerConfig) -> Tensor:
        """Attention of all queries [head_dim, heads, tokens]; the result is [head_dim * heads, tokens].

        keys and values [head_dim, tokens, kv_heads] are those of the same positions.
        """
        scale, start = 1 / math.sqrt(config.head_dim), 0
        results: list[Tensor] = []
        for part in self._parts:
            own_query = query.slice(2, start, part.length)
            own_keys, own_values = (memory.slice(1, start, part.length) for memory in (keys, values))
            if part.flash:
                results.append(own_query.flash_attention(own_keys, own_values, part.bias, scale))
            elif part.count is None:
                results.append(plain_attention(own_query, own_keys, own_values, part.bias, scale))
            else:
                results.append(attend_to_all(own_query, own_keys, own_values, part.count, scale))
            start += part.length
        joined = results[0]
        for result in results[1:]:
            joined = joined.concat(result, 1)
        return joined
