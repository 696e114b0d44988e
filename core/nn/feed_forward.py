"""The position-wise half of a transformer block."""

from __future__ import annotations

from collections.abc import Callable

from ..engine import Tensor, WeightScope
from .activations import Gelu
from .linear import Linear, LinearGroup


class SwiGLU:
    """down(silu(gate x) * up x) (Shazeer, "GLU Variants Improve Transformer", 2020)."""

    def __init__(self, scope: WeightScope, *, many_positions: bool = False) -> None:
        """Load the weights, for `many_positions` at a time or for few."""
        # GGML's GPU backends compute two products with one position and their SwiGLU in one kernel, which a joined
        # product is not.
        join = many_positions or scope.weights.on_cpu
        self._gate_and_up = LinearGroup(scope, ["ffn_gate", "ffn_up"], join=join)
        self._down = Linear(scope, "ffn_down")

    def __call__(self, x: Tensor) -> Tensor:
        """x [width, tokens] -> [width, tokens]."""
        gate, up = self._gate_and_up(x)
        return self._down(gate.swiglu(up))


class GeluMlp:
    """down(gelu(up x)), with the exact GELU (erf)."""

    def __init__(self, scope: WeightScope) -> None:
        self._up = Linear(scope, "ffn_up")
        self._activation = Gelu()
        self._down = Linear(scope, "ffn_down")

    def __call__(self, x: Tensor) -> Tensor:
        """x [width, tokens] -> [width, tokens]."""
        return self._down(self._activation(self._up(x)))


FeedForward = Callable[[Tensor], Tensor]
"""x [width, tokens] -> [width, tokens]."""
