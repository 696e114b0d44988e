"""The waveform decoder: the generator of the Descript Audio Codec (Kumar et al., "RVQGAN", 2023) made causal.

Module Qwen3TTSTokenizerV2Decoder.decoder of the official package. Channel counts are those of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from ...engine import Tensor, WeightScope
from ...nn.conv import CausalConv1d, CausalConvTranspose1d
from ...nn.conv_chain import Snaked, causal_layer, transposed_layer
from ...nn.snake import SnakeBeta
from ...nn.stages import Stages
from ...nn.streaming import Allocate, Memory

_DILATIONS = (1, 3, 9)
"""Of the three residual units in a block: constants of the architecture, which no file carries."""


class ResidualUnit:
    """x + conv2(snake(conv1(snake(x)))), conv1 dilated; weights act1, conv1, act2, conv2."""

    def __init__(self, scope: WeightScope, dilation: int, frame: int) -> None:
        """`frame` is how many positions a frame of codes has, and pieces of a stream are whole frames."""
        first, second = SnakeBeta(scope.scope("act1.")), SnakeBeta(scope.scope("act2."))
        self._dilated = CausalConv1d(
            scope.scope("conv1."), dilation=dilation, activation=first, period=frame, by_time=True
        )
        self._pointwise = CausalConv1d(scope.scope("conv2."), activation=second, by_time=True)

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for what a stream keeps: the past of the dilated convolution."""
        return self._dilated.memory(allocate)

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [channels, time, lanes] -> [channels, time, lanes]."""
        return self._pointwise(self._dilated(x, memory), residual=x)


@dataclass(frozen=True)
class BlockMemory:
    """What one block of a stream remembers."""

    transposed: Memory | None
    units: tuple[Memory | None, ...]


class DecoderBlock:
    """Snake, transposed convolution by `stride`, three residual units; weights snake, conv_t, res.{0,1,2}."""

    def __init__(self, scope: WeightScope, stride: int, frame: int) -> None:
        """`frame` is how many positions of the result a frame of codes has."""
        self._transposed = CausalConvTranspose1d(
            scope.scope("conv_t."),
            stride=stride,
            activation=SnakeBeta(scope.scope("snake.")),
            period=frame // stride,
            by_time=True,
        )
        self._units = [
            ResidualUnit(scope.scope(f"res.{index}."), dilation, frame)
            for index, dilation in enumerate(_DILATIONS)
        ]

    def memory(self, allocate: Allocate) -> BlockMemory:
        """Ask for what a stream keeps."""
        return BlockMemory(
            self._transposed.memory(allocate), tuple(unit.memory(allocate) for unit in self._units)
        )

    def __call__(self, x: Tensor, memory: BlockMemory | None = None) -> Tensor:
        """x [inputs, time, lanes] -> [outputs, time * stride, lanes]."""
        x = self._transposed(x, memory.transposed if memory else None)
        for index, unit in enumerate(self._units):
            x = unit(x, memory.units[index] if memory else None)
        return x


@dataclass(frozen=True)
class WaveformMemory:
    """What the waveform decoder of a stream remembers."""

    entry: Memory | None
    blocks: tuple[BlockMemory, ...]
    exit: Memory | None


class WaveformDecoder:
    """Convolution, one block per stride, snake, convolution to one channel; weights `{index}.*` in that order."""

    def __init__(self, scope: WeightScope, strides: Sequence[int], frame: int) -> None:
        """`frame` is how many positions of the input a frame of codes has."""
        last = len(strides) + 1
        frames = [frame * factor for factor in accumulate(strides, mul)]
        self._entry = CausalConv1d(scope.scope("0.conv."), by_time=True)
        self._blocks = [
            DecoderBlock(scope.scope(f"{index}."), stride, length)
            for index, (stride, length) in enumerate(zip(strides, frames, strict=True), start=1)
        ]
        self._exit = CausalConv1d(
            scope.scope(f"{last + 1}.conv."), activation=SnakeBeta(scope.scope(f"{last}.snake."))
        )

    def memory(self, allocate: Allocate) -> WaveformMemory:
        """Ask for what a stream keeps."""
        return WaveformMemory(
            self._entry.memory(allocate),
            tuple(block.memory(allocate) for block in self._blocks),
            self._exit.memory(allocate),
        )

    def stages(self, x: Tensor, memory: WaveformMemory | None = None) -> Stages:
        """x [width, time, lanes] -> the waveform [1, time * product of strides, lanes], not limited."""
        x = self._entry(x, memory.entry if memory else None)
        yield "dac0", x
        for index, block in enumerate(self._blocks):
            x = block(x, memory.blocks[index] if memory else None)
            yield f"dac{index + 1}", x
        x = self._exit(x, memory.exit if memory else None)
        yield f"dac{len(self._blocks) + 2}", x
        return x


def waveform_layers(scope: WeightScope, strides: Sequence[int]) -> Iterator[Snaked]:
    """The convolutions of `WaveformDecoder` one after the other, each with the snake before it, and samples limited."""
    last = len(strides) + 1
    yield None, causal_layer(scope.scope("0.conv."))
    for index, stride in enumerate(strides, start=1):
        block = scope.scope(f"{index}.")
        yield (
            block.scope("snake."),
            transposed_layer(block.scope("conv_t."), stride=stride, trunk="begins"),
        )
        for number, dilation in enumerate(_DILATIONS):
            unit = block.scope(f"res.{number}.")
            yield unit.scope("act1."), causal_layer(unit.scope("conv1."), dilation=dilation)
            yield unit.scope("act2."), causal_layer(unit.scope("conv2."), trunk="joins")
    yield scope.scope(f"{last}.snake."), causal_layer(scope.scope(f"{last + 1}.conv."), limited=True)
