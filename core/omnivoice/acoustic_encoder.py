"""The acoustic encoder: 24 kHz samples to vectors of sound, one per frame (DacEncoder of transformers)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..engine import WeightScope
from ..nn.centred_conv import Conv1d
from ..nn.snake import Snake
from ..nn.stages import StagesOf
from ..nn.stretch import Span, Stretch
from .dac import ResidualUnits, same_conv


class EncoderBlock:
    """Residual units, then snake and a convolution that leaves one position in `stride` (DacEncoderBlock)."""

    def __init__(self, scope: WeightScope, stride: int) -> None:
        self._units = ResidualUnits(scope)
        margin = -(-stride // 2)
        self._strided = Conv1d(
            scope.scope("conv1."),
            stride=stride,
            before=margin,
            after=margin,
            activation=Snake(scope.scope("snake1.")),
        )

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has."""
        return self._strided.length(total)

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        return self._units.needs(self._strided.needs(wanted))

    def __call__(self, x: Stretch) -> Stretch:
        """x [inputs, time] -> [outputs, time / stride]."""
        return self._strided(self._units(x))


class AcousticLayers:
    """Some of the encoder's layers, which follow each other."""

    def __init__(self, layers: Sequence[tuple[str, Conv1d | EncoderBlock]]) -> None:
        """From layers and the names of what they compute."""
        self._layers = layers

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has."""
        for _, layer in self._layers:
            total = layer.length(total)
        return total

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        for _, layer in reversed(self._layers):
            wanted = layer.needs(wanted)
        return wanted

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [inputs, time] -> [outputs, time / product of strides]."""
        for name, layer in self._layers:
            x = layer(x)
            yield name, x
        return x


class AcousticEncoder:
    """A convolution, a block per stride, snake and a convolution; weights `conv1`, `block.{i}`, `snake1`, `conv2`.

    Most of the work is in the first blocks, which see many positions; most of what a frame depends on (almost a second
    at each side) in the last. So that tiles need not compute it twice, the two halves can be run one after the other.

    Attributes:
        quick: the layers that see many positions, each of which depends on little.
        slow: the others.
        slow_stride: how many of their inputs make a frame.
    """

    def __init__(self, scope: WeightScope, strides: Sequence[int]) -> None:
        layers: list[tuple[str, Conv1d | EncoderBlock]] = [("dac_conv1", same_conv(scope.scope("conv1.")))]
        for index, stride in enumerate(strides):
            layers.append((f"dac_block{index}", EncoderBlock(scope.scope(f"block.{index}."), stride)))
        snake = Snake(scope.scope("snake1."))
        layers.append(("acoustic", same_conv(scope.scope("conv2."), activation=snake)))
        quick_blocks = (len(strides) + 1) // 2
        self.quick = AcousticLayers(layers[: 1 + quick_blocks])
        self.slow = AcousticLayers(layers[1 + quick_blocks :])
        self.slow_stride = math.prod(strides[quick_blocks:])

    def length(self, samples: int) -> int:
        """How many vectors there are for a number of samples."""
        return self.slow.length(self.quick.length(samples))

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [1, samples] -> [width, frames]."""
        x = yield from self.quick.stages(x)
        return (yield from self.slow.stages(x))
