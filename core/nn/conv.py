"""One-dimensional convolutions over channels-last activations, tensors [channels, time].

This is the only place that knows how a convolution becomes operations of the engine: a sum of matrix products, one per
tap, over shifted views of the input (quicker in stock GGML than one product over the taps side by side). Two
identities bring every other kind back to that form:

- stride s, kernel m * s: s neighbouring samples are one vector of s * channels values, and m taps remain;
- transposed, stride s, kernel m * s, trimmed on the right: m taps whose s * channels outputs are s samples.

Weights are float32 whatever the file holds: a half precision matrix would round the activations too.
Zero padding on the left by the length of the kernel's past makes a layer causal (van den Oord et al., "WaveNet", 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from ..engine import ConvPlan, Tensor, WeightScope
from .streaming import Allocate, Memory, with_left_context

Activation = Callable[[Tensor], Tensor]
"""A pointwise function with f(0) = 0, so that it may act on padding as well."""

Padding = Literal["zeros", "replicate"]


class Taps(Protocol):
    """y[:, t] = bias + sum over taps m of matrix[m] x[:, t + m * dilation], for matrices [taps, outputs, inputs]."""

    past: int
    """How many earlier inputs an output reads."""

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, past + time] -> [outputs, time]."""


class FusedTaps:
    """`Taps` as one operation, which the CPU has."""

    def __init__(self, matrices: np.ndarray, bias: np.ndarray | None, dilation: int) -> None:
        self._plan = ConvPlan(np.ascontiguousarray(matrices), bias, dilation)
        self.past = self._plan.past

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv1d(self._plan)


class ShiftedTaps:
    """`Taps` as matrix products over shifted views, which every device has."""

    def __init__(
        self, scope: WeightScope, matrices: np.ndarray, bias: np.ndarray | None, dilation: int
    ) -> None:
        self.past = (len(matrices) - 1) * dilation
        self._dilation = dilation
        self._matrices = [
            scope.constant(f"tap{index}", np.ascontiguousarray(matrix), matrix=True)
            for index, matrix in enumerate(matrices)
        ]
        self._bias = None if bias is None else scope.constant("tap_bias", bias)

    def __call__(self, x: Tensor) -> Tensor:
        time = x.shape[1] - self.past
        y = self._matrices[0] @ x.slice(1, 0, time)
        for index in range(1, len(self._matrices)):
            y = y + self._matrices[index] @ x.slice(1, index * self._dilation, time)
        return y if self._bias is None else y + self._bias


class FusedGroupedTaps:
    """`Taps` over groups of channels, each with matrices of its own: one operation per group."""

    def __init__(self, matrices: np.ndarray, bias: np.ndarray | None, dilation: int) -> None:
        """From matrices [groups, taps, outputs of a group, inputs of a group]."""
        biases = [None] * len(matrices) if bias is None else bias.reshape(len(matrices), -1)
        self._groups = [
            FusedTaps(group, part, dilation) for group, part in zip(matrices, biases, strict=True)
        ]
        self.past = self._groups[0].past

    def __call__(self, x: Tensor) -> Tensor:
        channels, time = x.shape[:2]
        count = len(self._groups)
        by_group = x.reshape(channels // count, count, time).permute(0, 2, 1).contiguous()
        parts = [
            taps(by_group.slice(2, index, 1).reshape(channels // count, time))
            for index, taps in enumerate(self._groups)
        ]
        while len(parts) > 1:  # pairwise, so that nothing is copied more often than log2(groups) times
            joined = [first.concat(second, 0) for first, second in zip(parts[::2], parts[1::2], strict=False)]
            parts = joined + parts[2 * len(joined) :]
        return parts[0]


class ShiftedGroupedTaps:
    """The same as matrix products that take all groups at once, one per tap."""

    def __init__(
        self, scope: WeightScope, matrices: np.ndarray, bias: np.ndarray | None, dilation: int
    ) -> None:
        """From matrices [groups, taps, outputs of a group, inputs of a group]."""
        self._groups, taps = matrices.shape[:2]
        self.past = (taps - 1) * dilation
        self._dilation = dilation
        self._matrices = [
            scope.constant(f"tap{index}", np.ascontiguousarray(matrices[:, index]), matrix=True)
            for index in range(taps)
        ]
        self._bias = None if bias is None else scope.constant("tap_bias", bias)

    def __call__(self, x: Tensor) -> Tensor:
        channels, time = x.shape[0], x.shape[1] - self.past
        by_group = x.reshape(channels // self._groups, self._groups, x.shape[1]).permute(0, 2, 1).contiguous()
        y = self._matrices[0] @ by_group.slice(1, 0, time)
        for index in range(1, len(self._matrices)):
            y = y + self._matrices[index] @ by_group.slice(1, index * self._dilation, time)
        y = y.permute(0, 2, 1).contiguous().reshape(y.shape[0] * self._groups, time)
        return y if self._bias is None else y + self._bias


def make_taps(scope: WeightScope, matrices: np.ndarray, bias: np.ndarray | None, dilation: int = 1) -> Taps:
    """Return `Taps` of matrices [taps, outputs, inputs] as the device of the weights computes them best."""
    if scope.weights.on_cpu:
        return FusedTaps(matrices, bias, dilation)
    return ShiftedTaps(scope, matrices, bias, dilation)


def make_grouped_taps(
    scope: WeightScope, weight: np.ndarray, bias: np.ndarray | None, dilation: int, groups: int
) -> Taps:
    """Return `Taps` of a weight (outputs, inputs / groups, kernel) whose groups of channels do not see each other."""
    outputs, inputs, kernel = weight.shape
    if outputs % groups:
        raise ValueError(f"{outputs} outputs do not make {groups} equal groups")
    matrices = weight.reshape(groups, outputs // groups, inputs, kernel).transpose(0, 3, 1, 2)
    if scope.weights.on_cpu:
        return FusedGroupedTaps(matrices, bias, dilation)
    return ShiftedGroupedTaps(scope, matrices, bias, dilation)


class PointwiseConv1d:
    """A linear map of every position; weights `weight` (outputs, inputs), `bias`.

    What `Linear` computes, in float32 whatever the file holds: the choice where there are many positions at once.
    """

    def __init__(self, scope: WeightScope, *, activation: Activation | None = None) -> None:
        weight = scope.array("weight")
        self._taps = make_taps(scope, weight.reshape(1, *weight.shape[:2]), bias_of(scope))
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, time] -> [outputs, time]."""
        return self._taps(x if self._activation is None else self._activation(x))


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
    ) -> None:
        weight = kernel_of(scope)
        outputs, inputs, kernel = weight.shape
        _require_multiple(kernel, stride)
        if stride > 1 and dilation > 1:
            raise ValueError("a convolution cannot have both a stride and a dilation here")
        matrices = weight.reshape(outputs, inputs, kernel // stride, stride).transpose(2, 0, 3, 1)
        matrices = matrices.reshape(kernel // stride, outputs, -1)
        self._taps = make_taps(scope, matrices, bias_of(scope), dilation)
        self._inputs, self._stride, self._padding, self._activation = inputs, stride, padding, activation
        self._past = self._taps.past * stride

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._inputs, self._past)) if self._past else None

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [inputs, time] -> [outputs, ceil(time / stride)].

        With memory, only the last piece of a stream may have a length that `stride` does not divide.
        """
        missing = -x.shape[1] % self._stride
        if memory is not None and self._padding != "zeros":
            raise ValueError("a stream begins with zeros, it cannot replicate an edge")
        if self._padding == "replicate":
            x = _replicate_edges(x, self._past, missing)
        else:
            x = with_left_context(x.pad(1, 0, missing) if missing else x, self._past, memory)
        if self._activation is not None:
            x = self._activation(x)
        if self._stride > 1:
            x = x.reshape(self._inputs * self._stride, x.shape[1] // self._stride)
        return self._taps(x)


class CausalConvTranspose1d:
    """Transposed convolution, trimmed on the right to time * stride samples, so that no output sees the future.

    Weights `weight` (inputs, outputs, kernel), `bias`. y[o, t * stride + j] = bias[o] +
    sum over i, m of weight[i, o, m * stride + j] x[i, t - m] (torch.nn.ConvTranspose1d). `activation` is applied
    to the input.
    """

    def __init__(self, scope: WeightScope, *, stride: int, activation: Activation | None = None) -> None:
        weight = kernel_of(scope)
        inputs, outputs, kernel = weight.shape
        _require_multiple(kernel, stride)
        by_delay = weight.reshape(inputs, outputs, kernel // stride, stride).transpose(2, 3, 1, 0)
        matrices = by_delay[::-1].reshape(kernel // stride, stride * outputs, inputs)
        bias = bias_of(scope)
        self._taps = make_taps(scope, matrices, None if bias is None else np.tile(bias, stride))
        self._inputs, self._outputs, self._stride, self._activation = inputs, outputs, stride, activation

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._inputs, self._taps.past)) if self._taps.past else None

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [inputs, time] -> [outputs, time * stride]."""
        time = x.shape[1]
        x = with_left_context(x, self._taps.past, memory)
        if self._activation is not None:
            x = self._activation(x)
        return self._taps(x).reshape(self._outputs, time * self._stride)


class CausalDepthwiseConv1d:
    """Causal convolution of every channel with its own kernel; weights `weight` (channels, 1, kernel), `bias`."""

    def __init__(self, scope: WeightScope) -> None:
        weight = kernel_of(scope)
        self._channels, _, self._kernel = weight.shape
        self._columns = [
            scope.constant(f"tap{index}", np.ascontiguousarray(weight[:, 0, index]))
            for index in range(self._kernel)
        ]
        bias = bias_of(scope)
        self._bias = None if bias is None else scope.constant("tap_bias", bias)

    def memory(self, allocate: Allocate) -> Memory | None:
        """Ask for the left context that a stream has to keep, None when the layer has no past."""
        return allocate((self._channels, self._kernel - 1)) if self._kernel > 1 else None

    def __call__(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """x [channels, time] -> [channels, time]."""
        time = x.shape[1]
        x = with_left_context(x, self._kernel - 1, memory)
        y = x.slice(1, 0, time) * self._columns[0]
        for index in range(1, self._kernel):
            y = y + x.slice(1, index, time) * self._columns[index]
        return y if self._bias is None else y + self._bias


class SameConv1d:
    """Convolution that keeps the length by mirroring both ends (PyTorch's padding="same", padding_mode="reflect").

    Weights `weight` (outputs, inputs, kernel), `bias`; the kernel is odd. Needs time > dilation * (kernel - 1) / 2.
    """

    def __init__(self, scope: WeightScope, *, dilation: int = 1) -> None:
        weight = kernel_of(scope)
        if weight.shape[2] % 2 == 0:
            raise ValueError(f"a kernel of even length {weight.shape[2]} has no centre")
        self._taps = make_taps(scope, weight.transpose(2, 0, 1), bias_of(scope), dilation)

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, time] -> [outputs, time]."""
        return self._taps(_reflect_edges(x, self._taps.past // 2))


def kernel_of(scope: WeightScope) -> np.ndarray:
    """Return `weight` with its three axes; a file may have dropped a leading axis of length one."""
    weight = scope.array("weight")
    return weight.reshape((1,) * (3 - weight.ndim) + weight.shape)


def bias_of(scope: WeightScope) -> np.ndarray | None:
    """Return `bias` as [outputs], None where the file has none."""
    return scope.array("bias").reshape(-1) if "bias" in scope else None


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
