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

from ..sampling.philox import words_of_many

FloatArray = NDArray[np.float32]
WordArray = NDArray[np.uint32]
PlaceArray = NDArray[np.int64]

THREADS_PER_BLOCK = 256
RESIDENT_THREADS = 108 * 2048
"""Threads that an NVIDIA A100 runs at once, the GPU whose numbers larger tensors get."""

_WORDS = 4
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
            words = words_of_many(self._seed, self._block + block, lanes[here].astype(np.uint64))
            numbers[here] = _to_uniform(words[turns[here] % _WORDS, np.arange(len(here))])
        self._block += blocks
        return numbers


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
