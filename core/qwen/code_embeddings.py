"""Codec ids as rows of the talker's input.

The first codebook shares a table with the talker's control ids; each of the others has its own. Rows are read from
the mapped file: a frame needs 16 of them, and what the code predictor is fed is what the talker is fed next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..engine import Weights


class CodeEmbeddings:
    """The tables of all codebooks; rows are as wide as the talker."""

    def __init__(self, weights: Weights, codebooks: int) -> None:
        self.codebooks = codebooks
        self._weights = weights
        self._tables = [
            "talker.codec_embd.weight",
            *(f"code_pred.codec_embd.{index}.weight" for index in range(codebooks - 1)),
        ]

    @property
    def width(self) -> int:
        """Width of a row."""
        return self._weights.shape(self._tables[0])[-1]

    def rows(self, codes: NDArray[np.int32], codebook: int = 0) -> NDArray[np.float32]:
        """Return the rows [n, width] of codes [n] of one codebook; codebook 0 includes the control ids."""
        return self._weights.rows(self._tables[codebook], codes)

    def frames(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return what a whole frame adds to the talker's input: [n, width], summed over codes [n, codebooks]."""
        total = self.rows(codes[:, 0])
        for codebook in range(1, self.codebooks):
            total += self.rows(codes[:, codebook], codebook)
        return total
