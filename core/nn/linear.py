"""Matrix products with the weights of a file."""

from __future__ import annotations

from ..engine import Tensor, WeightScope


class Linear:
    """y = weight x + bias, with `name.weight` (outputs, inputs) and, if the file has it, `name.bias` (outputs)."""

    def __init__(self, scope: WeightScope, name: str) -> None:
        self._weight = scope.matrix(f"{name}.weight")
        self._bias = scope.tensor(f"{name}.bias", "f32") if f"{name}.bias" in scope else None

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, ...] -> [outputs, ...]."""
        y = self._weight @ x
        return y if self._bias is None else y + self._bias
