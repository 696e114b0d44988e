"""From codec frames to the rate of the waveform decoder: transposed convolutions with ConvNeXt blocks.

ConvNeXt: Liu et al., "A ConvNet for the 2020s", 2022, in the causal one-dimensional form of
Qwen3TTSTokenizerV2ConvNeXtBlock (official package).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...engine import Tensor, WeightScope
from ...nn.activations import Gelu
from ...nn.conv import CausalConvTranspose1d, CausalDepthwiseConv1d
from ...nn.lanes import apart, joined
from ...nn.linear import Linear
from ...nn.norms import LayerNorm
from ...nn.stages import Stages
from ...nn.streaming import Allocate, Memory

_NORM_EPSILON = 1e-6
"""A constant of the official module, which no file carries."""


class ConvNeXtBlock:
    """x + gamma * W2 gelu(W1 norm(depthwise(x))); weights dwconv, norm, pwconv1, pwconv2, gamma."""

    def __init__(self, scope: WeightScope) -> None:
        self._depthwise = CausalDepthwiseConv1d(scope.scope("dwconv."))
        self._norm = LayerNorm(
            scope.tensor("norm.weight", "f32"), scope.tensor("norm.bias", "f32"), _NORM_EPSILON
        )
        self._activation = Gelu()
        self._expand = Linear(scope, "pwconv1")
        self._contract = Linear(scope, "pwconv2")
        self._gamma = scope.tensor("gamma", "f32")

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for what a stream keeps: the past of the depthwise convolution."""
        return self._depthwise.memory(allocate)

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [width, time, lanes] -> [width, time, lanes]."""
        hidden = self._norm(joined(self._depthwise(x, memory)))
        change = self._contract(self._activation(self._expand(hidden))) * self._gamma
        return x + apart(change, x.shape[2])


@dataclass(frozen=True)
class UpsampleMemory:
    """What one stage of a stream remembers."""

    transposed: Memory | None
    block: Memory | None


class UpsampleStage:
    """A transposed convolution by `ratio` and a ConvNeXt block; weights `conv.*` and those of the block."""

    def __init__(self, scope: WeightScope, ratio: int) -> None:
        self._transposed = CausalConvTranspose1d(scope.scope("conv."), stride=ratio)
        self._block = ConvNeXtBlock(scope)

    def memory(self, allocate: Allocate) -> UpsampleMemory:
        """Ask for what a stream keeps."""
        return UpsampleMemory(self._transposed.memory(allocate), self._block.memory(allocate))

    def stages(self, x: Tensor, memory: UpsampleMemory | None = None) -> Stages:
        """x [width, time, lanes] -> [width, time * ratio, lanes]."""
        x = self._transposed(x, memory.transposed if memory else None)
        yield "tconv", x
        x = self._block(x, memory.block if memory else None)
        yield "convnext", x
        return x
