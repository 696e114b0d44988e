"""Self-attention, and the one place that knows which attention operation a device has.

On the CPU a fused operation reads the places of the queries, so it needs no mask and no bucketed lengths. Other
devices run GGML's flash attention where its kernels exist for the head size, else plain matrix products and a
softmax; both need a mask that the host prepares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..engine import Engine, Graph, Tensor, WeightScope
from .config import FLOAT16_MAX, TransformerConfig
from .linear import Linear, LinearGroup
from .norms import RMSNorm, load_norm

FLASH_HEAD_SIZES = frozenset({64, 80, 96, 112, 128, 256})
"""Head sizes for which the flash attention kernels of every GPU backend exist."""

_SEEN, _HIDDEN = np.float16(0), np.float16(-np.inf)

KEYS_STRIDE = 256
"""GPU flash attention kernels want a multiple of this many keys."""


@dataclass(frozen=True)
class Sight:
    """Which keys each query sees: the one at its own place and those before it.

    Attributes:
        places: i32 [queries], where each query stands among the keys.
        mask: f16 [keys, queries], 0 where a key is seen and -inf elsewhere; with slots, [keys, queries of a slot, 1,
            slots]. None for the fused operation.
    """

    places: Tensor
    mask: Tensor | None

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, config: TransformerConfig) -> Tensor:
        """Attention of these queries; see `attend`."""
        return attend(query, keys, values, self, config)


class AnySight(Protocol):
    """Which keys each query sees."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, config: TransformerConfig) -> Tensor:
        """query [head_dim, heads, tokens], keys and values [head_dim, keys, kv_heads] -> [head_dim * heads, tokens].

        With keys and values [head_dim, keys, kv_heads, slots], the tokens are as many for each slot, slot by slot.
        """


class LayerMemory(Protocol):
    """The keys and values that one layer attends to."""

    @property
    def sight(self) -> AnySight:
        """What the new positions see of them."""

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """keys, values [head_dim, tokens, kv_heads] of the new positions -> those of all positions."""


class Memory(Protocol):
    """The keys and values that a stack of layers attends to."""

    def layer(self, index: int) -> LayerMemory:
        """Return the memory of one layer."""


def needs_mask(config: TransformerConfig, on_cpu: bool) -> bool:
    """Tell whether attention reads a mask rather than places."""
    return config.arithmetic.plain_attention or not on_cpu


def mask_values(places: np.ndarray, keys: int, window: int) -> np.ndarray:
    """Return the mask, float16 [..., keys], of queries at `places` [...]; window 0 is all earlier keys."""
    distance = places[..., None] - np.arange(keys, dtype=np.int32)
    seen = distance >= 0
    if window:
        seen &= distance < window
    mask: np.ndarray = np.where(seen, _SEEN, _HIDDEN)
    return mask


def attend(query: Tensor, keys: Tensor, values: Tensor, sight: Sight, config: TransformerConfig) -> Tensor:
    """Scaled dot-product attention (Vaswani et al., 2017) with shared key heads (Ainslie et al., 2023).

    Args:
        query: [head_dim, heads, tokens].
        keys: [head_dim, keys, kv_heads], float32 or float16; query head h reads h // (heads / kv_heads). With slots,
            [head_dim, keys, kv_heads, slots]: token t reads slot t // (tokens / slots).
        values: like keys.
        sight: what each query sees.
        config: window and way of computing.

    Returns:
        [head_dim * heads, tokens].
    """
    scale = 1 / math.sqrt(config.head_dim)
    if sight.mask is None:
        return query.attention(keys, values, sight.places, scale, window=config.window)
    if not config.arithmetic.plain_attention and _flash_fits(keys):
        return query.flash_attention(keys, values, sight.mask, scale)
    return plain_attention(query, keys, values, sight.mask, scale)


def key_count_input(graph: Graph, name: str) -> Tensor | None:
    """Return the input, int32 [1], that tells `attend_to_all` how many keys there are; None where nothing reads it."""
    return graph.input(name, (1,), "i32") if graph.engine.is_cpu else None


def key_count_arrays(engine: Engine, name: str, count: int) -> dict[str, np.ndarray]:
    """Return what a run of a program feeds to its `key_count_input`."""
    return {name: np.array([count], np.int32)} if engine.is_cpu else {}


def attend_to_all(query: Tensor, keys: Tensor, values: Tensor, count: Tensor | None, scale: float) -> Tensor:
    """Scaled dot-product attention in which every query sees every key, in float32.

    Args:
        query: [head_dim, heads, tokens].
        keys: [head_dim, keys, kv_heads]; query head h reads h // (heads / kv_heads).
        values: like keys.
        count: int32 [1], how many keys there are, of `key_count_input`.
        scale: factor of the products.

    Returns:
        [head_dim * heads, tokens].
    """
    if query.on_cpu and count is not None:
        return query.attention(keys, values, count, scale, causal=False)
    return plain_attention(query, keys, values, None, scale)


def flash_attends_to_all(engine: Engine, config: TransformerConfig) -> bool:
    """Tell whether attention in which every query sees every key is left to flash attention, whatever their number.

    Not where all bits are wanted: GPUs round keys and values to float16 for it.
    """
    return (
        not engine.is_cpu
        and not engine.exact
        and not config.arithmetic.plain_attention
        and config.head_dim in FLASH_HEAD_SIZES
    )


def _flash_fits(keys: Tensor) -> bool:
    """Float32 keys are wanted for their precision, and these kernels round them to float16."""
    return keys.dtype == "f16" and keys.shape[0] in FLASH_HEAD_SIZES and keys.shape[1] % KEYS_STRIDE == 0


def plain_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention by matrix products and a softmax; shapes as in `attend`.

    `mask` [keys, tokens], float16 or float32, is added to the scaled products; with slots, [keys, tokens of a slot, 1,
    slots].
    """
    head_dim, heads, tokens, _ = query.shape
    slots = keys.shape[3]
    if slots > 1:
        query = query.reshape(head_dim, heads, tokens // slots, slots)
    weights = (keys @ query.permute(0, 2, 1, 3)).softmax(scale, mask)
    mixed = values.transpose().contiguous() @ weights
    return mixed.permute(0, 2, 1, 3).contiguous().reshape(head_dim * heads, tokens)


class WholeSequence:
    """Memory of a layer that sees the positions of this one run, 0, 1, 2, ..., and nothing before them."""

    def __init__(self, positions: Tensor, config: TransformerConfig) -> None:
        masked = needs_mask(config, positions.on_cpu)
        self.sight = Sight(positions, _sequence_mask(positions, config.window) if masked else None)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [head_dim, tokens, kv_heads] as they are."""
        return keys, values

    def layer(self, index: int) -> WholeSequence:
        """Return the memory of one layer, the same for all."""
        return self


def _sequence_mask(positions: Tensor, window: int) -> Tensor:
    """positions i32 [tokens] -> mask f16 [tokens, tokens]: `mask_values`, computed on the device.

    Whole numbers make the steps of a clamp sharp. The lowest float16 stands for -inf, which a product with zero
    would turn into NaN.
    """
    tokens = positions.shape[0]
    keys = positions.cast("f32")
    distance = keys.reshape(1, tokens).repeat(tokens, tokens) - keys
    unseen = (-distance).clamp(0.0, 1.0)
    if window:
        unseen = unseen + (distance - float(window - 1)).clamp(0.0, 1.0)
    return (unseen * -FLOAT16_MAX).cast("f16")


class Attention:
    """Grouped-query self-attention with rotary positions (Su et al., "RoFormer", 2021) in the rotate-half form.

    Weights `attn_q`, `attn_k`, `attn_v`, `attn_output` (bias optional). With `attn_q_norm` and `attn_k_norm` in the
    file, each head of queries and keys is RMS-normalised before rotation (Qwen3 technical report, section 2).
    """

    def __init__(self, scope: WeightScope, config: TransformerConfig) -> None:
        self._config = config
        together = config.many_positions and can_turn_together(scope)
        self._inputs: Callable[[Tensor], list[Tensor]]
        self._heads: _HeadsTogether | _HeadsApart
        if together:
            self._inputs = LinearGroup(scope, [("attn_q", "attn_k"), "attn_v"])
            self._heads = _HeadsTogether(scope, config)
        else:
            self._inputs = LinearGroup(scope, ["attn_q", "attn_k", "attn_v"])
            self._heads = _HeadsApart(scope, config)
        self._output = Linear(scope, "attn_output")

    def __call__(self, x: Tensor, positions: Tensor, memory: LayerMemory) -> Tensor:
        """x [width, tokens] at positions i32 [tokens] -> [width, tokens]."""
        config, tokens = self._config, x.shape[1]
        *heads, value = self._inputs(x)
        query, key = self._heads(heads, positions)
        value = value.reshape(config.head_dim, config.kv_heads, tokens)
        if config.arithmetic.clamp_float16:
            value = value.clamp(-FLOAT16_MAX, FLOAT16_MAX)
        keys, values = memory.append(key.permute(0, 2, 1, 3), value.permute(0, 2, 1, 3))
        return self._output(memory.sight.attend(query, keys, values, config))


class _HeadsApart:
    """Heads of queries and of keys, each normalised where the file has norms, and rotated."""

    def __init__(self, scope: WeightScope, config: TransformerConfig) -> None:
        self._config = config
        has_norms = "attn_q_norm.weight" in scope
        self._query_norm = load_norm(scope, "attn_q_norm", config.norm_eps) if has_norms else None
        self._key_norm = load_norm(scope, "attn_k_norm", config.norm_eps) if has_norms else None

    def __call__(self, products: Sequence[Tensor], positions: Tensor) -> tuple[Tensor, Tensor]:
        """queries [head_dim * heads, tokens], keys [head_dim * kv_heads, tokens] -> [head_dim, heads or kv_heads,
        tokens] of both."""
        config, (query, key) = self._config, products
        query = query.reshape(config.head_dim, config.heads, query.shape[1])
        key = key.reshape(config.head_dim, config.kv_heads, key.shape[1])
        if self._query_norm and self._key_norm:
            query, key = self._query_norm(query), self._key_norm(key)
        query = query.rope(positions, config.head_dim, config.rope_theta)
        return query, key.rope(positions, config.head_dim, config.rope_theta)


class _HeadsTogether:
    """The same of one product and in one operation, for which a GPU needs one launch instead of two."""

    def __init__(self, scope: WeightScope, config: TransformerConfig) -> None:
        self._config = config
        weights = [
            np.tile(scope.array(f"{name}.weight"), (count, 1))
            for name, count in (("attn_q_norm", config.heads), ("attn_k_norm", config.kv_heads))
        ]
        weight = scope.constant("attn_norms_together", np.concatenate(weights))
        self._norm = RMSNorm(weight, config.norm_eps)

    def __call__(self, products: Sequence[Tensor], positions: Tensor) -> tuple[Tensor, Tensor]:
        """queries above keys, [head_dim * (heads + kv_heads), tokens] -> [head_dim, heads or kv_heads, tokens] of
        both."""
        config, (product,) = self._config, products
        together = product.reshape(config.head_dim, config.heads + config.kv_heads, product.shape[1])
        turned = self._norm(together).rope(positions, config.head_dim, config.rope_theta)
        return turned.slice(1, 0, config.heads), turned.slice(1, config.heads, config.kv_heads)


def can_turn_together(scope: WeightScope) -> bool:
    """Tell whether a GPU runs this file's queries and keys as one product with one norm behind it."""
    return (
        not scope.weights.on_cpu
        and scope.can_join("attn_q.weight", "attn_k.weight")
        and "attn_q_norm.weight" in scope
        and not any(f"{name}.bias" in scope for name in ("attn_q", "attn_k", "attn_q_norm", "attn_k_norm"))
    )
