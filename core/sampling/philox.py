"""Philox4x32-10 random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A number is a pure function of (seed, subsequence): there is no generator state, so a draw never depends on
the draws before it, on the batch, or on how the work was cut into chunks.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

from ..._native import philox_block, philox_uniform, philox_words
from ..errors import UsageError

__all__ = ["resolve_seed", "uniform", "words", "words_of_many"]

_SEED_LIMIT = 2**64


def words(seed: int, subsequence: int) -> tuple[int, int, int, int]:
    """Return the four 32-bit words of the block that belongs to `subsequence`."""
    return philox_block(seed, subsequence)


def words_of_many(seed: int, counter: int, subsequences: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the four words [4, n] of block `counter` of each of n subsequences; `words` are those of block 0."""
    return philox_words(seed, counter, subsequences)


def uniform(seed: int, subsequence: int) -> float:
    """Return (first word + 0.5) / 2^32 in float32 arithmetic: a number in (0, 1], both ends rounded."""
    return philox_uniform(seed, subsequence)


def resolve_seed(seed: int | None) -> int:
    """Return `seed` itself, or a random one from the operating system when it is None or negative.

    Random seeds stay below 2^63, so that what is reported can be typed back into any signed option.

    Raises:
        UsageError: the seed does not fit into 64 bits.
    """
    if seed is None or seed < 0:
        return secrets.randbits(63)
    if seed >= _SEED_LIMIT:
        raise UsageError(f"seed {seed} is too large: it must be below 2^64")
    return seed
