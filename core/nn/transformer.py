"""A pre-norm transformer: the talker, the code predictor, and the transformers inside the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..engine import Tensor, WeightScope
from .attention import Attention, LayerMemory, Memory, WholeSequence
from .config import FLOAT16_MAX, TransformerConfig
from .feed_forward import FeedForward, SwiGLU
from .norms import load_norm

__all__ = ["Transformer", "TransformerBlock", "TransformerConfig"]


class TransformerBlock:
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Norms `attn_norm`, `ffn_norm` are RMSNorms, or LayerNorms where the file has a bias. `attn_scale`, `ffn_scale`
    (width), where present, scale what is added to the residual stream (Touvron et al., "CaiT", 2021: LayerScale).
    """

    def __init__(
        self,
        scope: WeightScope,
        config: TransformerConfig,
        feed_forward: Callable[[WeightScope], FeedForward] = SwiGLU,
    ) -> None:
        self._clamped = config.arithmetic.clamp_float16
        self._attention_norm = load_norm(scope, "attn_norm", config.norm_eps)
        self._attention = Attention(scope, config)
        self._attention_scale = _layer_scale(scope, "attn_scale")
        self._feed_forward_norm = load_norm(scope, "ffn_norm", config.norm_eps)
        self._feed_forward = feed_forward(scope)
        self._feed_forward_scale = _layer_scale(scope, "ffn_scale")

    def __call__(self, x: Tensor, positions: Tensor, memory: LayerMemory) -> Tensor:
        """x [width, tokens] at positions i32 [tokens] -> [width, tokens]."""
        attended = self._attention(self._attention_norm(x), positions, memory)
        x = self._bounded(x + _scaled(attended, self._attention_scale))
        fed = self._feed_forward(self._feed_forward_norm(x))
        return self._bounded(x + _scaled(fed, self._feed_forward_scale))

    def _bounded(self, x: Tensor) -> Tensor:
        return x.clamp(-FLOAT16_MAX, FLOAT16_MAX) if self._clamped else x


class Transformer:
    """A stack of blocks `blk.0`, `blk.1`, ... without a final norm."""

    def __init__(
        self,
        scope: WeightScope,
        config: TransformerConfig,
        feed_forward: Callable[[WeightScope], FeedForward] = SwiGLU,
    ) -> None:
        self.config = config
        self._blocks = [
            TransformerBlock(scope.scope(f"blk.{index}."), config, feed_forward)
            for index in range(config.layers)
        ]

    def __call__(self, x: Tensor, positions: Tensor, memory: Memory | None = None) -> Tensor:
        """x [width, tokens] at positions i32 [tokens] -> residual stream [width, tokens] after the last block.

        Without a memory the positions have to be 0, 1, 2, ...: attention is causal over x itself. With a view of a
        cache, x follows what the cache holds, and is added to it; other kinds of memory say for themselves what x sees.
        """
        *_, result = self.residuals(x, positions, memory)
        return result

    def residuals(self, x: Tensor, positions: Tensor, memory: Memory | None = None) -> Iterator[Tensor]:
        """Yield the residual stream [width, tokens] after each block; arguments as in a call."""
        memory = memory or WholeSequence(positions, self.config)
        for index, block in enumerate(self._blocks):
            x = block(x, positions, memory.layer(index))
            yield x


def _layer_scale(scope: WeightScope, name: str) -> Tensor | None:
    return scope.tensor(name, "f32") if name in scope else None


def _scaled(x: Tensor, scale: Tensor | None) -> Tensor:
    return x if scale is None else x * scale
