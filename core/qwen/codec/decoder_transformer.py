"""The transformer of the codec decoder: every frame sees a window of the past (72 frames, 5.8 s).

Module Qwen3TTSTokenizerV2DecoderTransformerModel of the official package.
"""

from __future__ import annotations

from ...engine import Tensor, WeightScope
from ...nn.attention import Memory
from ...nn.linear import Linear
from ...nn.norms import load_norm
from ...nn.stages import Stages
from ...nn.transformer import Transformer, TransformerConfig


class DecoderTransformer:
    """Projection, blocks with SwiGLU and layer scale, norm, projection; weights input_proj, blk, norm, output_proj."""

    def __init__(self, scope: WeightScope, config: TransformerConfig) -> None:
        self._entry = Linear(scope, "input_proj")
        self._blocks = Transformer(scope, config)
        self._norm = load_norm(scope, "norm", config.norm_eps)
        self._exit = Linear(scope, "output_proj")

    def stages(self, x: Tensor, positions: Tensor, cache: Memory | None = None) -> Stages:
        """x [latent, time] at positions int32 [time] -> [latent, time].

        Without a cache, x is the whole sequence.
        """
        residuals = self._blocks.residuals(self._entry(x), positions, cache)
        for index, residual in enumerate(residuals):
            yield f"pre_tfm_layer{index}", residual
        x = self._exit(self._norm(residual))
        yield "pre_tfm", x
        return x
