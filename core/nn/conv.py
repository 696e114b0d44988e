"""One-dimensional convolutions over channels-last activations, tensors [channels, time, lanes].

`taps` knows how they become operations of the engine; here are their edges. A transposed convolution of stride s and
kernel m * s, trimmed on the right, is one of m taps whose s * channels outputs are s samples.
Zero padding on the left by the length of the kernel's past makes a layer causal (van den Oord et al., "WaveNet", 2016).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..engine import Tensor, WeightScope
from .activations import Activation, Identity
from .lanes import channels_first, time_first
from .streaming import Allocate, Memory, with_left_context
from .taps import Taps, bias_of, kernel_of, kernel_shape, kernel_taps, pointwise_taps, transposed_taps

Padding = Literal["zeros", "replicate"]


class PointwiseConv1d:
    """A linear map of every position; weights `weight` (outputs, inputs), `bias`.

    What `Linear` computes, in float32 whatever the file holds: the choice where there are many positions at once.
    """

    def __init__(self, scope: WeightScope) -> None:
        self._taps: Taps = pointwise_taps(scope)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, time, lanes] -> [outputs, time, lanes], plus the residual."""
        return self._taps(x, residual)


class CausalConv1d:
    """Convolution that sees the present and the past only; weights `weight` (outputs, inputs, kernel), `bias`.

    y[o, t] = bias[o] + sum over i, k of weight[o, i, k] x[i, t * stride + k * dilation - past], where past is
    (kernel - 1) * dilation - (stride - 1). A sequence that `stride` does not divide is padded on the right, as
    MimiConv1d of transformers does. `activation` is applied to the input.
    """

    def __init__(
        self,
        scope: WeightScope,
        *,
        stride: int = 1,
        dilation: int = 1,
        padding: Padding = "zeros",
        activation: Activation | None = None,
        many: bool = False,
        period: int = 0,
        by_time: bool = False,
    ) -> None:
        """`many` says that outputs are computed many at a time, never one by one, and `period` that every piece of a
        stream has a multiple of so many; for these and `by_time` see `kernel_taps`."""
        _, self._inputs, kernel = kernel_shape(scope)
        _require_multiple(kernel, stride)
        if stride > 1 and dilation > 1:
            raise ValueError("a convolution cannot have both a stride and a dilation here")
        self._taps = kernel_taps(
            scope, stride=stride, dilation=dilation, many=many, period=period, by_time=by_time
        )
        self._stride, self._padding, self._activation = stride, padding, activation or Identity()
        self._past = self._taps.reach - stride

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._inputs, self._past)) if self._past else None

    def __call__(self, x: Tensor, memory: Memory | None = None, residual: Tensor | None = None) -> Tensor:
        """x [inputs, time, lanes] -> [outputs, ceil(time / stride), lanes], plus the residual.

        With memory, only the last piece of a stream may have a length that `stride` does not divide.
        """
        missing = -x.shape[1] % self._stride
        if memory is not None and self._padding != "zeros":
            raise ValueError("a stream begins with zeros, it cannot replicate an edge")
        if self._padding == "replicate":
            x = self._activation(_replicate_edges(x, self._past, missing))
        else:
            x = with_left_context(x, self._past, memory, self._activation, missing)
        return self._taps(x, residual)


class CausalConvTranspose1d:
    """Transposed convolution, trimmed on the right to time * stride samples, so that no output sees the future.

    Weights `weight` (inputs, outputs, kernel), `bias`. y[o, t * stride + j] = bias[o] +
    sum over i, m of weight[i, o, m * stride + j] x[i, t - m] (torch.nn.ConvTranspose1d). `activation` is applied
    to the input.
    """

    def __init__(
        self,
        scope: WeightScope,
        *,
        stride: int,
        activation: Activation | None = None,
        period: int = 0,
        by_time: bool = False,
    ) -> None:
        """`period` says that every piece of a stream has a multiple of so many inputs; for it and `by_time` see
        `kernel_taps`."""
        inputs, outputs, kernel = kernel_shape(scope)
        _require_multiple(kernel, stride)
        self._taps = transposed_taps(scope, stride, period=period)
        self._inputs, self._outputs, self._stride = inputs, outputs, stride
        self._activation = activation or Identity()
        self._by_time = by_time and not scope.weights.on_cpu
        self._past = self._taps.reach - 1

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._inputs, self._past)) if self._past else None

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [inputs, time, lanes] -> [outputs, time * stride, lanes]."""
        time, lanes = x.shape[1:3]
        x = with_left_context(x, self._past, memory, self._activation)
        y = self._taps(x).reshape(self._outputs, time * self._stride, lanes)
        return channels_first(time_first(y), lanes) if self._by_time else y


class CausalDepthwiseConv1d:
    """Causal convolution of every channel with its own kernel; weights `weight` (channels, 1, kernel), `bias`."""

    def __init__(self, scope: WeightScope) -> None:
        weight = kernel_of(scope)
        self._channels, _, self._kernel = weight.shape
        self._taps = scope.constant("taps", np.ascontiguousarray(weight[:, 0].T))
        bias = bias_of(scope)
        self._bias = None if bias is None else scope.constant("tap_bias", bias)

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._channels, self._kernel - 1)) if self._kernel > 1 else None

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [channels, time, lanes] -> [channels, time, lanes]."""
        x = with_left_context(x, self._kernel - 1, memory, Identity())
        y = x.depthwise_conv1d(self._taps)
        return y if self._bias is None else y + self._bias


class SameConv1d:
    """Convolution that keeps the length by mirroring both ends (PyTorch's padding="same", padding_mode="reflect").

    Weights `weight` (outputs, inputs, kernel), `bias`; the kernel is odd. Needs time > dilation * (kernel - 1) / 2.
    """

    def __init__(self, scope: WeightScope, *, dilation: int = 1) -> None:
        kernel = kernel_shape(scope)[2]
        if kernel % 2 == 0:
            raise ValueError(f"a kernel of even length {kernel} has no centre")
        self._taps = kernel_taps(scope, dilation=dilation, many=True)

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, time] -> [outputs, time]."""
        return self._taps(_reflect_edges(x, self._taps.reach // 2))


def _require_multiple(kernel: int, stride: int) -> None:
    if kernel % stride:
        raise ValueError(f"a kernel of length {kernel} is not a multiple of the stride {stride}")


def _replicate_edges(x: Tensor, left: int, right: int) -> Tensor:
    channels, time = x.shape[:2]
    if left:
        x = x.slice(1, 0, 1).repeat(channels, left).concat(x, 1)
    if right:
        x = x.concat(x.slice(1, left + time - 1, 1).repeat(channels, right), 1)
    return x


def _reflect_edges(x: Tensor, length: int) -> Tensor:
    if length == 0:
        return x
    time = x.shape[1]
    if length >= time:
        raise ValueError(f"{time} positions are too few to mirror {length} at each end")
    left, right = x.slice(1, length, 1), x.slice(1, time - 2, 1)
    for step in range(1, length):
        left = left.concat(x.slice(1, length - step, 1), 1)
        right = right.concat(x.slice(1, time - 2 - step, 1), 1)
    return left.concat(x, 1).concat(right, 1)
