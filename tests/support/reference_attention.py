"""Attention in float64."""

from __future__ import annotations

import numpy as np


def reference_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray, scale: float
) -> np.ndarray:
    """q [tokens, heads, dim]; k, v [kv_heads, positions, dim]; visible [tokens, positions] -> [tokens, heads * dim]."""
    group = q.shape[1] // k.shape[0]
    out = np.zeros(q.shape, dtype=np.float64)
    for head in range(q.shape[1]):
        scores = q[:, head].astype(np.float64) @ k[head // group].astype(np.float64).T * scale
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ v[head // group].astype(np.float64)
    return out.reshape(len(q), -1)
