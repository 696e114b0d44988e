"""Normalisation over the channels of one position."""

from __future__ import annotations

from ..engine import Tensor, WeightScope


class RMSNorm:
    """y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019)."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight, self._eps = weight, eps

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, ...] -> same shape, every vector of channels on its own."""
        return x.rms_norm(self._eps) * self._weight


class LayerNorm:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al., "Layer Normalization", 2016)."""

    def __init__(self, weight: Tensor, bias: Tensor, eps: float) -> None:
        self._weight, self._bias, self._eps = weight, bias, eps

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, ...] -> same shape, every vector of channels on its own."""
        if x.on_cpu and x.shape[2:] == (1, 1):
            return x.affine_layer_norm(self._weight, self._bias, self._eps)
        return x.layer_norm(self._eps) * self._weight + self._bias


Norm = RMSNorm | LayerNorm


def load_norm(scope: WeightScope, name: str, eps: float) -> Norm:
    """Return the norm `name` of a file: a LayerNorm when it has a bias, else an RMSNorm."""
    weight = scope.tensor(f"{name}.weight", "f32")
    if f"{name}.bias" in scope:
        return LayerNorm(weight, scope.tensor(f"{name}.bias", "f32"), eps)
    return RMSNorm(weight, eps)
