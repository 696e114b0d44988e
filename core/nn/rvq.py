"""Residual vector quantisation (Zeghidour et al., "SoundStream", 2021): a vector as a sum of codebook entries.

Each codebook quantises what the ones before it left over. The split form of Mimi (Défossez et al., 2024) runs two
such chains side by side: one codebook for meaning, the others for sound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine import Tensor, WeightScope, exact_product

_SEARCH_ROWS = 1024
"""Vectors searched at once, which bounds the memory of the table of distances."""


class CodebookSum:
    """Codes back to vectors: the sum of one entry per codebook; weights `{index}.codebook` (entries, width)."""

    def __init__(self, scope: WeightScope, count: int) -> None:
        self.count = count
        self._tables = [scope.tensor(f"{index}.codebook") for index in range(count)]

    def __call__(self, codes: Tensor, first: int) -> Tensor:
        """codes int32 [time, codebooks], of which columns first.. belong to this chain -> [width, time]."""
        time = codes.shape[0]
        total = None
        for index, table in enumerate(self._tables):
            entries = table.get_rows(codes.slice(1, first + index, 1).reshape(time))
            total = entries if total is None else total + entries
        if total is None:
            raise ValueError("a chain of codebooks cannot be empty")
        return total


class JoinedCodebooks:
    """Codes back to the entries of all codebooks, one after the other, in one lookup; weights `{name}.codebook`.

    What is a sum of lookups and a projection becomes a lookup and one product with the projection repeated, which
    leaves less to launch on a GPU. All codebooks have one shape.
    """

    def __init__(self, scope: WeightScope, names: Sequence[str]) -> None:
        tables = [scope.array(f"{name}.codebook") for name in names]
        self._entries, self.width = tables[0].shape
        self.count = len(tables)
        self._table = scope.constant("codebooks", np.concatenate(tables))

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Return codes [time, codebooks] as rows of the table, int32 alike."""
        rows: np.ndarray = codes + np.arange(self.count, dtype=np.int32) * self._entries
        return rows.astype(np.int32)

    def __call__(self, rows: Tensor) -> Tensor:
        """rows int32 [codebooks, time] -> [width * codebooks, time]."""
        time = rows.shape[1]
        return self._table.get_rows(rows.reshape(self.count * time)).reshape(self.width * self.count, time)


def nearest_entries(vectors: np.ndarray, codebooks: Sequence[np.ndarray]) -> np.ndarray:
    """Quantise vectors [n, width] with a chain of codebooks [entries, width]: codes int32 [n, codebooks].

    Each step takes the entry at the smallest Euclidean distance, the first of equal ones, and leaves the difference
    to the next (torch.cdist and argmin in MimiEuclideanCodebook). One matrix product per codebook, in float64: the
    distances of near ties differ in the last bits of float32.
    """
    squares = [np.square(codebook, dtype=np.float64).sum(1) for codebook in codebooks]
    codes = np.empty((len(vectors), len(codebooks)), np.int32)
    for begin in range(0, len(vectors), _SEARCH_ROWS):
        residual = vectors[begin : begin + _SEARCH_ROWS].astype(np.float64)
        for index, codebook in enumerate(codebooks):
            nearest = (squares[index] - 2.0 * exact_product(residual, codebook)).argmin(1)
            codes[begin : begin + _SEARCH_ROWS, index] = nearest
            residual = residual - codebook[nearest]
    return codes
