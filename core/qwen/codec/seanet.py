"""SEANet, the convolutional encoder of Mimi (Tagliasacchi et al., 2020; Défossez et al., "Moshi", 2024).

Module MimiEncoder of transformers: a convolution, then for every stride residual units and a strided convolution,
then a last convolution, with ELU before each but the first. All are causal.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...engine import Tensor, WeightScope
from ...formats.qwen import CodecEncoderSizes
from ...nn.activations import Elu
from ...nn.conv import CausalConv1d
from ...nn.stages import Stages
from ...nn.streaming import Allocate, Memory


class ResidualUnit:
    """x + conv3(elu(conv1(elu(x)))), conv1 dilated and conv3 of kernel 1; weights `blk.1` and `blk.3`."""

    def __init__(self, scope: WeightScope, dilation: int) -> None:
        self._dilated = CausalConv1d(scope.scope("blk.1."), dilation=dilation, activation=Elu(), many=True)
        self._pointwise = CausalConv1d(scope.scope("blk.3."), activation=Elu(), many=True)

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for what a stream keeps: the past of the dilated convolution."""
        return self._dilated.memory(allocate)

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [channels, time] -> [channels, time]."""
        return self._pointwise(self._dilated(x, memory), residual=x)


@dataclass(frozen=True)
class SeanetMemory:
    """What a stream remembers of every layer, in order."""

    layers: tuple[Memory | None, ...]


class Seanet:
    """Samples to features at sample rate / product of strides.

    Weights `conv.{i}` and `res.{i}`, where i counts layers as the official module list does, ELU included.
    """

    def __init__(self, scope: WeightScope, sizes: CodecEncoderSizes) -> None:
        self._layers: list[tuple[int, CausalConv1d | ResidualUnit]] = [
            (0, CausalConv1d(scope.scope("conv.0."), many=True))
        ]
        index = 1
        for stride in sizes.strides:
            for depth in range(sizes.residual_layers):
                unit = ResidualUnit(scope.scope(f"res.{index}."), sizes.dilation_growth**depth)
                self._layers.append((index, unit))
                index += 1
            conv = CausalConv1d(scope.scope(f"conv.{index + 1}."), stride=stride, activation=Elu(), many=True)
            self._layers.append((index + 1, conv))
            index += 2
        self._layers.append(
            (index + 1, CausalConv1d(scope.scope(f"conv.{index + 1}."), activation=Elu(), many=True))
        )

    def memory(self, allocate: Allocate) -> SeanetMemory:
        """Ask for what a stream keeps."""
        return SeanetMemory(tuple(layer.memory(allocate) for _, layer in self._layers))

    def stages(self, x: Tensor, memory: SeanetMemory | None = None) -> Stages:
        """x [1, samples] -> the features [width, ceil(samples / product of strides)].

        With memory, only the last piece of a stream may have a length that the product of strides does not divide.
        """
        for position, (index, layer) in enumerate(self._layers):
            x = layer(x, memory.layers[position] if memory else None)
            yield f"seanet_layer{index}" if index else "seanet_conv0", x
        yield "seanet", x
        return x
