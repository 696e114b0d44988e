"""The transformer of `core/nn` once more, in NumPy and float64, written for reading rather than for speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

Array = np.ndarray


class Sizes(Protocol):
    """What a `TransformerConfig` has."""

    @property
    def layers(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def ffn_width(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def rope_theta(self) -> float: ...
    @property
    def norm_eps(self) -> float: ...
    @property
    def window(self) -> int: ...


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def rotate(x: Array, positions: Array, theta: float) -> Array:
    """x [tokens, heads, head_dim] rotated by its positions, the two halves of a head being the pairs."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-np.arange(half) / half)
    sine, cosine = np.sin(angles)[:, None], np.cos(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


def attention(query: Array, keys: Array, values: Array, places: Array, window: int) -> Array:
    """query [tokens, heads, head_dim], keys and values [keys, kv_heads, head_dim] -> [tokens, heads * head_dim]."""
    tokens, heads, head_dim = query.shape
    share = heads // keys.shape[1]
    distance = places[:, None] - np.arange(len(keys))[None]
    seen = (distance >= 0) & (distance < (window or len(keys) + 1))
    mixed = np.empty_like(query)
    for head in range(heads):
        scores = query[:, head] @ keys[:, head // share].T / np.sqrt(head_dim)
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed[:, head] = scores / scores.sum(-1, keepdims=True) @ values[:, head // share]
    return mixed.reshape(tokens, heads * head_dim)


def block(x: Array, weights: Mapping[str, Array], sizes: Sizes) -> Array:
    """x [tokens, width] through one block, causal over itself."""
    tokens, positions = len(x), np.arange(len(x))
    h = rms_norm(x, weights["attn_norm.weight"], sizes.norm_eps)
    query = (h @ weights["attn_q.weight"].T).reshape(tokens, sizes.heads, sizes.head_dim)
    key = (h @ weights["attn_k.weight"].T).reshape(tokens, sizes.kv_heads, sizes.head_dim)
    value = (h @ weights["attn_v.weight"].T).reshape(tokens, sizes.kv_heads, sizes.head_dim)
    query = rotate(
        rms_norm(query, weights["attn_q_norm.weight"], sizes.norm_eps), positions, sizes.rope_theta
    )
    key = rotate(rms_norm(key, weights["attn_k_norm.weight"], sizes.norm_eps), positions, sizes.rope_theta)
    attended = attention(query, key, value, positions, sizes.window) @ weights["attn_output.weight"].T
    x = x + attended * weights["attn_scale"]
    h = rms_norm(x, weights["ffn_norm.weight"], sizes.norm_eps)
    h = silu(h @ weights["ffn_gate.weight"].T) * (h @ weights["ffn_up.weight"].T)
    return x + h @ weights["ffn_down.weight"].T * weights["ffn_scale"]


def transformer(x: Array, weights: Mapping[str, Array], sizes: Sizes) -> list[Array]:
    """The residual streams [tokens, width] after each block."""
    streams = []
    x = x.astype(np.float64)
    for layer in range(sizes.layers):
        prefix = f"blk.{layer}."
        own = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
        x = block(x, own, sizes)
        streams.append(x)
    return streams
