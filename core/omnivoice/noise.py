"""The random numbers of MaskGIT, aligned with PyTorch's CUDA generator.

`torch.rand_like` on CUDA is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with
a grid-stride loop: thread t of n in the grid fills elements t, t + n, t + 2 n and t + 3 n with the four words of one
block, then goes on with the next block. Subsequence t of the seed belongs to it, and every kernel begins behind the
blocks that the kernels before it used. Tensors no larger than the grid therefore take one word of each block, and the
numbers do not depend on the GPU; larger ones depend on how many threads it runs at once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
WordArray = NDArray[np.uint64]
PlaceArray = NDArray[np.int64]

THREADS_PER_BLOCK = 256
RESIDENT_THREADS = 108 * 2048
"""Threads that an NVIDIA A100 runs at once, the GPU whose numbers larger tensors get."""

_WORDS = 4
_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TINY = np.float32(1e-10)


class Noise(Protocol):
    """A source of uniform random numbers."""

    def uniform(self, count: int, wanted: PlaceArray | None = None) -> FloatArray:
        """Return the next `count` numbers in [0, 1), float32 [count], or only those at the places `wanted` [n]."""


class PhiloxNoise:
    """The numbers that successive `torch.rand_like` calls give on a GPU after `torch.manual_seed(seed)`."""

    def __init__(self, seed: int, resident_threads: int = RESIDENT_THREADS) -> None:
        self._seed = seed
        self._resident_threads = resident_threads
        self._block = 0

    def uniform(self, count: int, wanted: PlaceArray | None = None) -> FloatArray:
        """Return the numbers of one tensor with `count` elements, in memory order, or only those of the elements
        `wanted` [n]: what is not wanted is not computed, but counts as drawn."""
        whole_blocks = -(-count // THREADS_PER_BLOCK) * THREADS_PER_BLOCK
        threads = min(whole_blocks, self._resident_threads)
        elements = np.arange(count) if wanted is None else wanted
        turns, lanes = np.divmod(elements, threads)
        numbers = np.empty(len(elements), np.float32)
        blocks = -(-count // (threads * _WORDS))
        for block in range(blocks):
            here = np.flatnonzero(turns // _WORDS == block)
            drawn = self._drawn(self._block + block, lanes[here], threads)
            numbers[here] = _to_uniform(drawn[turns[here] % _WORDS, np.arange(len(here))])
        self._block += blocks
        return numbers

    def _drawn(self, block: int, lanes: PlaceArray, threads: int) -> WordArray:
        """Return the four words [4, n] of a block for each of n threads of the grid; none is computed twice."""
        asked = np.zeros(threads, np.bool_)
        asked[lanes] = True
        words = np.stack(philox_words(self._seed, block, np.flatnonzero(asked).astype(np.uint64)))
        return words[:, (np.cumsum(asked) - 1)[lanes]]


def philox_words(seed: int, counter: int, subsequences: WordArray) -> tuple[WordArray, ...]:
    """Return the four 32-bit words [n] of block `counter` of each of n subsequences."""
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    zero = np.zeros_like(subsequences)
    words = [zero + np.uint64(counter), zero, subsequences & _LOW, subsequences >> _HALF]
    for _ in range(_ROUNDS):
        first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            second >> _HALF ^ words[1] ^ np.uint64(key[0]),
            second & _LOW,
            first >> _HALF ^ words[3] ^ np.uint64(key[1]),
            first & _LOW,
        ]
        key = [(part + weyl) & 0xFFFFFFFF for part, weyl in zip(key, _WEYL, strict=True)]
    return tuple(words)


def _to_uniform(words: WordArray) -> FloatArray:
    """Words to numbers as PyTorch does it: (word + 1/2) / 2^32 in float32, where a 1 that rounding gives becomes 0."""
    numbers = (words.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    below_one: FloatArray = np.where(numbers == 1, np.float32(0), numbers)
    return below_one


def gumbel(uniform: FloatArray) -> FloatArray:
    """Return Gumbel noise -log(-log u) of uniform numbers, each logarithm moved off zero by 1e-10 as in the official
    package."""
    noise: FloatArray = -np.log(-np.log(uniform + _TINY) + _TINY)
    return noise
