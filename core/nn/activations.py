"""Pointwise functions, and the one place that knows how a device computes them.

A convolution wants its input behind zeros, or behind what a stream remembers, and perhaps before zeros. On the CPU one
operation computes the function and writes the result where it is wanted; elsewhere they are operations of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..engine import Tensor
from .lanes import side_by_side


class Activation(ABC):
    """A pointwise function with f(0) = 0, so that it may come before padding or after it."""

    @property
    @abstractmethod
    def _fused_name(self) -> str:
        """What the operation of the CPU calls it."""

    @property
    def _vectors(self) -> list[Tensor]:
        """What the operation of the CPU reads beside its input, [channels] each."""
        return []

    @abstractmethod
    def by_steps(self, x: Tensor) -> Tensor:
        """The function as operations that every device has; x [channels, time] -> [channels, time]."""

    def __call__(
        self, x: Tensor, *, before: int = 0, after: int = 0, context: Tensor | None = None
    ) -> Tensor:
        """x [channels, time] -> [channels, before + time + after].

        `before` and `after` are how many zeros surround the result. `context` [channels, length], values of this
        function for what came before x, takes the place of the zeros before it.
        """
        if x.on_cpu:
            return x.activate(self._fused_name, self._vectors, before, after, context)
        return self.surrounded_by_steps(x, before, after, context)

    def surrounded_by_steps(self, x: Tensor, before: int, after: int, context: Tensor | None) -> Tensor:
        """What a call computes, as operations that every device has."""
        y = self.by_steps(x)
        if before or after or context is not None:
            y = side_by_side(y)
        if context is not None:
            y = context.concat(y, 1)
        return y.pad(1, before, after) if before or after else y


class Identity(Activation):
    """x itself."""

    _fused_name = "identity"

    def by_steps(self, x: Tensor) -> Tensor:
        """x as it is."""
        return x


class Elu(Activation):
    """Exponential linear unit, alpha 1: x above zero, e^x - 1 below (Clevert et al., 2016)."""

    _fused_name = "elu"

    def by_steps(self, x: Tensor) -> Tensor:
        """The operation of GGML."""
        return x.elu()


class Gelu(Activation):
    """x times the normal distribution up to x, the exact GELU (Hendrycks and Gimpel, 2016)."""

    _fused_name = "gelu"

    def by_steps(self, x: Tensor) -> Tensor:
        """The operation of GGML."""
        return x.gelu()


def scaled_gelu(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """gelu(x * scale + shift) for x [channels, time], scale and shift [channels]."""
    if x.on_cpu:
        return x.activate("scaled_gelu", [scale, shift])
    return (x * scale + shift).gelu()
