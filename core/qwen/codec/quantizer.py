"""The split residual quantiser of the codec: one codebook of meaning, and a chain of codebooks of sound.

Decoding follows Qwen3TTSTokenizerV2Decoder.quantizer of the official package, encoding MimiSplitResidualVectorQuantizer
of transformers. The second chain does not see what the first one coded: both start from the same vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engine import Tensor, WeightScope
from ...nn.conv import CausalConv1d
from ...nn.rvq import CodebookSum, nearest_entries
from ...nn.stages import Stages


class SplitDequantizer:
    """Codes to latent vectors; weights `vq_first.*` and `vq_rest.*`, each codebooks and an `output_proj`."""

    def __init__(self, scope: WeightScope, semantic: int, total: int) -> None:
        self._semantic = semantic
        self._first = CodebookSum(scope.scope("vq_first."), semantic)
        self._first_projection = CausalConv1d(scope.scope("vq_first.output_proj."))
        self._rest = CodebookSum(scope.scope("vq_rest."), total - semantic)
        self._rest_projection = CausalConv1d(scope.scope("vq_rest.output_proj."))

    def stages(self, codes: Tensor) -> Stages:
        """codes int32 [time, codebooks] -> [latent, time], the sum of what the two chains stand for."""
        first = self._first_projection(self._first(codes, 0))
        yield "rvq_first", first
        rest = self._rest_projection(self._rest(codes, self._semantic))
        yield "rvq_rest", rest
        yield "rvq_out", (x := first + rest)
        return x


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
