"""The transformer of the codec encoder: causal over the whole recording (MimiTransformerModel of transformers).

The configuration of Mimi names a window, but the attention that transformers 4.57 runs on float32 does not apply it.
"""

from __future__ import annotations

from ...engine import Tensor, WeightScope
from ...nn.feed_forward import GeluMlp
from ...nn.stages import Stages
from ...nn.transformer import Transformer, TransformerConfig


class EncoderTransformer:
    """Blocks with LayerNorm, GELU and layer scale, and no norm behind the last; weights `blk.{i}`."""

    def __init__(self, scope: WeightScope, config: TransformerConfig) -> None:
        self._blocks = Transformer(scope, config, GeluMlp)

    def stages(self, x: Tensor, positions: Tensor) -> Stages:
        """x [width, time] at positions int32 [time] (0, 1, 2, ...) -> [width, time]."""
        for index, residual in enumerate(self._blocks.residuals(x, positions)):
            yield f"enc_tfm_layer{index}", residual
        yield "enc_tfm", residual
        return residual
