"""The residual vector quantiser of the OmniVoice codec (HiggsAudioV2TokenizerResidualVectorQuantization).

Every codebook is narrower than the vectors: they are projected into it to find an entry, and the entry is projected
back (Yu et al., "Vector-quantized image modeling with improved VQGAN", 2022). What one codebook leaves over goes to the
next.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ..engine import Tensor, WeightScope, exact_product
from ..nn.taps import matrix_taps

_SEARCH_ROWS = 1024
"""Vectors searched at once, which bounds the memory of the table of scores."""


class Dequantizer:
    """Codes to vectors; weights `{index}.codebook.embed` (entries, width), `{index}.project_out`."""

    def __init__(self, scope: WeightScope, count: int) -> None:
        books = [scope.scope(f"{index}.") for index in range(count)]
        self._tables = [book.tensor("codebook.embed", "f32") for book in books]
        # A sum of projections is one projection of the entries side by side.
        weight = np.concatenate([book.array("project_out.weight") for book in books], axis=1)
        biases = np.stack([book.array("project_out.bias") for book in books])
        bias = biases.sum(axis=0, dtype=np.float64).astype(np.float32)
        self._project = matrix_taps(scope.scope("project_out."), weight[None], bias)

    def __call__(self, codes: Tensor) -> Tensor:
        """codes int32 [time, codebooks] -> [width, time], the sum over the codebooks."""
        time = codes.shape[0]
        entries = [
            table.get_rows(codes.slice(1, index, 1).reshape(time)) for index, table in enumerate(self._tables)
        ]
        return self._project(reduce(lambda left, right: left.concat(right, 0), entries))


class Quantizer:
    """Vectors to codes; weights `{index}.codebook.embed`, `{index}.project_in`, `{index}.project_out`.

    On the host and in float64: it is little work, and the scores of near ties differ in the last bits of float32.
    """

    def __init__(self, scope: WeightScope, count: int) -> None:
        self._books = [_Codebook(scope.scope(f"{index}.")) for index in range(count)]

    def search(self, vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        """Vectors [n, width] -> codes [n, codebooks]."""
        codes = np.empty((len(vectors), len(self._books)), np.int32)
        for begin in range(0, len(vectors), _SEARCH_ROWS):
            residual = vectors[begin : begin + _SEARCH_ROWS].astype(np.float64)
            for index, book in enumerate(self._books):
                nearest = book.nearest(residual)
                codes[begin : begin + _SEARCH_ROWS, index] = nearest
                residual = residual - book.vectors(nearest)
        return codes


class _Codebook:
    def __init__(self, scope: WeightScope) -> None:
        self._entries = scope.array("codebook.embed")
        self._half_squares = 0.5 * np.square(self._entries, dtype=np.float64).sum(1)
        self._into, self._into_bias = scope.array("project_in.weight"), scope.array("project_in.bias")
        self._out_of, self._out_of_bias = scope.array("project_out.weight"), scope.array("project_out.bias")

    def nearest(self, vectors: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return which entry has the smallest Euclidean distance to each of the vectors [n, width]."""
        projected = exact_product(vectors, self._into) + self._into_bias
        scores = exact_product(projected, self._entries) - self._half_squares
        best: NDArray[np.intp] = scores.argmax(1)
        return best

    def vectors(self, codes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the vectors [n, width] that codes [n] stand for."""
        entries = self._entries[codes].astype(np.float64)
        vectors: NDArray[np.float64] = exact_product(entries, self._out_of) + self._out_of_bias
        return vectors
