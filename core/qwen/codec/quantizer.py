"""The split residual quantiser of the codec: one codebook of meaning, and a chain of codebooks of sound.

Decoding follows Qwen3TTSTokenizerV2Decoder.quantizer of the official package, encoding MimiSplitResidualVectorQuantizer
of transformers. The second chain does not see what the first one coded: both start from the same vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ...engine import Graph, Tensor, WeightScope
from ...nn.conv import CausalConv1d
from ...nn.rvq import CodebookSum, JoinedCodebooks, nearest_entries
from ...nn.stages import Stages
from ...nn.taps import kernel_of, matrix_taps


class SplitDequantizer(ABC):
    """Codes to latent vectors; weights `vq_first.*` and `vq_rest.*`, each codebooks and an `output_proj`."""

    @staticmethod
    def of(scope: WeightScope, semantic: int, total: int) -> SplitDequantizer:
        """Return what computes it best on the device of the weights."""
        kind = _Summed if scope.weights.on_cpu else _Joined
        return kind(scope, semantic, total)

    @abstractmethod
    def input(self, graph: Graph, time: int) -> Tensor:
        """Return the input "codes" of a graph."""

    @abstractmethod
    def feed(self, codes: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return codes [time, codebooks] as that input takes them."""

    @abstractmethod
    def chains(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the chain of meaning and the chain of sound stand for, [latent, time] each."""

    def stages(self, codes: Tensor) -> Stages:
        """From the input "codes" -> [latent, time], the sum of what the two chains stand for."""
        first, rest = self.chains(codes)
        yield "rvq_first", first
        yield "rvq_rest", rest
        yield "rvq_out", (x := first + rest)
        return x


class _Summed(SplitDequantizer):
    """Entries are summed before they are projected."""

    def __init__(self, scope: WeightScope, semantic: int, total: int) -> None:
        self._semantic, self._total = semantic, total
        self._first = CodebookSum(scope.scope("vq_first."), semantic)
        self._first_projection = CausalConv1d(scope.scope("vq_first.output_proj."))
        self._rest = CodebookSum(scope.scope("vq_rest."), total - semantic)
        self._rest_projection = CausalConv1d(scope.scope("vq_rest.output_proj."))

    def input(self, graph: Graph, time: int) -> Tensor:
        """Codebook by codebook."""
        return graph.input("codes", (time, self._total), "i32")

    def feed(self, codes: NDArray[np.integer]) -> NDArray[np.int32]:
        """[codebooks, time]."""
        return np.ascontiguousarray(codes.T, dtype=np.int32)

    def chains(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Sum, then project."""
        first = self._first_projection(self._first(codes, 0))
        return first, self._rest_projection(self._rest(codes, self._semantic))


class _Joined(SplitDequantizer):
    """One lookup of all entries, and one product that sums and projects both chains at once."""

    def __init__(self, scope: WeightScope, semantic: int, total: int) -> None:
        names = [f"vq_first.{index}" for index in range(semantic)]
        names += [f"vq_rest.{index}" for index in range(total - semantic)]
        self._codebooks = JoinedCodebooks(scope, names)
        first, rest = (
            kernel_of(scope.scope(f"{chain}.output_proj."))[:, :, 0] for chain in ("vq_first", "vq_rest")
        )
        self._latent = len(first)
        both = _diagonal(np.tile(first, (1, semantic)), np.tile(rest, (1, total - semantic)))
        self._project = matrix_taps(scope.scope("vq_both."), both[None], None)

    def input(self, graph: Graph, time: int) -> Tensor:
        """Frame by frame."""
        return graph.input("codes", (self._codebooks.count, time), "i32")

    def feed(self, codes: NDArray[np.integer]) -> NDArray[np.int32]:
        """[time, codebooks], rows of the joined table."""
        return self._codebooks.rows(codes)

    def chains(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """The halves of the product."""
        both = self._project(self._codebooks(codes))
        return both.slice(0, 0, self._latent), both.slice(0, self._latent, self._latent)


def _diagonal(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the matrix that applies one to the beginning of a vector, and the other to the rest."""
    zeros = np.zeros((len(first) + len(second), first.shape[1] + second.shape[1]), np.float32)
    zeros[: len(first), : first.shape[1]], zeros[len(first) :, first.shape[1] :] = first, second
    return zeros


class SplitQuantizer:
    """Latent vectors to codes; weights `vq_semantic.*` and `vq_acoustic.*`, each an `input_proj` and codebooks."""

    def __init__(self, scope: WeightScope, semantic: int, total: int) -> None:
        self._semantic_projection = CausalConv1d(scope.scope("vq_semantic.input_proj."), many=True)
        self._acoustic_projection = CausalConv1d(scope.scope("vq_acoustic.input_proj."), many=True)
        self._semantic = [scope.array(f"vq_semantic.{index}.codebook") for index in range(semantic)]
        self._acoustic = [scope.array(f"vq_acoustic.{index}.codebook") for index in range(total - semantic)]

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [latent, time] -> the vectors that the two chains quantise, [width, time] each."""
        return self._semantic_projection(x), self._acoustic_projection(x)

    def search(self, semantic: NDArray[np.float32], acoustic: NDArray[np.float32]) -> NDArray[np.int32]:
        """Projected vectors [time, width] -> codes [time, codebooks], the semantic ones first."""
        return np.concatenate(
            [nearest_entries(semantic, self._semantic), nearest_entries(acoustic, self._acoustic)], axis=1
        )
