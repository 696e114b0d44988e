"""Convolutions without their edges: sums of products with matrices, one per tap, over channels-last activations.

This is the only place that knows how a convolution becomes operations of the engine. The CPU has one that does all;
elsewhere it is one product over the taps side by side: on a GPU, whose time goes into launching operations and into
moving values, that beats a sum of products over shifted views. Weights are float32 whatever the file holds: a half
precision matrix would round the activations too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..engine import ConvPlan, Tensor, WeightScope
from .lanes import apart, channels_first, joined, side_by_side, time_first


class Taps(Protocol):
    """y[:, t] = bias + sum over taps k of matrix[k] x[:, t * stride + k * dilation]."""

    @property
    def reach(self) -> int:
        """How many neighbouring inputs an output reads, gaps included."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, (time - 1) * stride + reach, lanes] -> [outputs, time, lanes], plus the residual."""


class FusedTaps:
    """`Taps` as one operation, which the CPU has."""

    def __init__(self, plan: ConvPlan) -> None:
        self._plan = plan

    @property
    def reach(self) -> int:
        """How many neighbouring inputs an output reads."""
        return self._plan.reach

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, (time - 1) * stride + reach] -> [outputs, time]."""
        return x.conv1d(self._plan, residual)


class UnfoldedTaps:
    """`Taps` of stride 1 as one matrix product over windows of the input, which every device has."""

    def __init__(
        self,
        scope: WeightScope,
        matrices: np.ndarray,
        bias: np.ndarray | None,
        dilation: int = 1,
        *,
        by_time: bool = False,
    ) -> None:
        """From matrices [taps, outputs, inputs]. `by_time` has positions side by side in the result, see `lanes`."""
        self._count, outputs, inputs = matrices.shape
        self.reach = (self._count - 1) * dilation + 1
        self._dilation, self._by_time = dilation, by_time
        row = matrices.transpose(1, 0, 2).reshape(outputs, self._count * inputs)
        self._matrix = scope.constant("taps", np.ascontiguousarray(row), matrix=not by_time)
        self._bias = None
        if bias is not None:
            self._bias = scope.constant("tap_bias", bias.reshape(-1, 1) if by_time else bias)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, time - 1 + reach, lanes] -> [outputs, time, lanes]."""
        lanes = x.shape[2]
        windows = joined(x) if self._count == 1 else side_by_side(x).unfold(self._count, self._dilation)
        if self._by_time:
            added = None if residual is None else time_first(residual)
            return channels_first(_plus(windows @ self._matrix, self._bias, added), lanes)
        added = None if residual is None else joined(residual)
        return apart(_plus(self._matrix @ windows, self._bias, added), lanes)


class StridedTaps:
    """`Taps` of a stride and no dilation: as many neighbours as the stride has are one vector."""

    def __init__(self, scope: WeightScope, weight: np.ndarray, bias: np.ndarray | None, stride: int) -> None:
        """From a weight (outputs, inputs, kernel)."""
        outputs, inputs, self.reach = weight.shape
        self._stride = stride
        steps = -(-self.reach // stride)
        self._missing = steps * stride - self.reach
        weight = np.pad(weight, ((0, 0), (0, 0), (0, self._missing)))
        by_step = weight.reshape(outputs, inputs, steps, stride).transpose(2, 0, 3, 1)
        self._taps = UnfoldedTaps(scope, by_step.reshape(steps, outputs, stride * inputs), bias, 1)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, (time - 1) * stride + reach, lanes] -> [outputs, time, lanes]."""
        if self._missing:
            x = x.pad(1, 0, self._missing)
        inputs, time, lanes, _ = x.shape
        return self._taps(x.reshape(inputs * self._stride, time // self._stride, lanes), residual)


class ShiftedGroupedTaps:
    """`Taps` over groups of channels that do not see each other, as products that take all groups at once."""

    def __init__(
        self, scope: WeightScope, weight: np.ndarray, bias: np.ndarray | None, dilation: int, groups: int
    ) -> None:
        """From a weight (outputs, inputs of a group, kernel)."""
        outputs, inputs, kernel = weight.shape
        matrices = weight.reshape(groups, outputs // groups, inputs, kernel).transpose(3, 0, 1, 2)
        self.reach = (kernel - 1) * dilation + 1
        self._groups, self._dilation = groups, dilation
        self._matrices = _constants(scope, matrices)
        self._bias = None if bias is None else scope.constant("tap_bias", bias)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [inputs, time - 1 + reach] -> [outputs, time]."""
        channels, time = x.shape[0], x.shape[1] - self.reach + 1
        by_group = x.reshape(channels // self._groups, self._groups, x.shape[1]).permute(0, 2, 1).contiguous()
        y = _sum_of_products(self._matrices, by_group, time, self._dilation)
        y = y.permute(0, 2, 1).contiguous().reshape(y.shape[0] * self._groups, time)
        return _plus(y, self._bias, residual)


def matrix_taps(scope: WeightScope, matrices: np.ndarray, bias: np.ndarray | None) -> Taps:
    """Return `Taps` of matrices [taps, outputs, inputs] as the device of the weights computes them best."""
    if scope.weights.on_cpu:
        return FusedTaps(ConvPlan(np.ascontiguousarray(matrices), bias))
    return UnfoldedTaps(scope, matrices, bias, 1)


def kernel_taps(
    scope: WeightScope,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    many: bool = False,
    period: int = 0,
    by_time: bool = False,
) -> Taps:
    """Return `Taps` of `weight` (outputs, inputs of a group, kernel) and `bias` as the device computes them best.

    `many` says that outputs are computed many at a time. Then the CPU reads float weights where they lie in the file,
    and there is nothing to load; else they are packed.

    `period` says that a sequence is only ever cut at multiples of so many outputs. Then an output may be rounded
    according to its place in a period, and the CPU needs 36 % of the multiplications (minimal filtering).

    `by_time` says that what reads the result wants positions side by side, unless that is an operation that only the
    CPU has.
    """
    kernel = _Kernel(scope, kernel_shape(scope))
    if by_time and not scope.weights.on_cpu and stride == groups == 1:
        return UnfoldedTaps(scope, kernel.matrices(), bias_of(scope), dilation, by_time=True)
    return _taps(kernel, _Geometry(stride, dilation, groups, many, period))


def transposed_taps(scope: WeightScope, stride: int, *, period: int = 0) -> Taps:
    """Return `Taps` of a transposed convolution's `weight` (inputs, outputs, kernel) and `bias`.

    A stride that divides the kernel makes it a convolution of kernel / stride taps, whose stride * outputs values are
    those of `stride` samples: at input t + past, with past = kernel / stride - 1, output j * outputs + o is
    bias[o] + sum over i, m of weight[i, o, m * stride + j] x[i, t + past - m].

    `period` says that a sequence is only ever cut at multiples of so many inputs, as in `kernel_taps`.
    """
    weights, name, bias = scope.weights, scope.full_name("weight"), bias_of(scope)
    if weights.on_cpu and weights.has_floats(name):
        plan = ConvPlan.transposed_of_file(
            weights.file, name, kernel_shape(scope), bias, stride, threads=weights.threads, period=period
        )
        return FusedTaps(plan)
    return matrix_taps(scope, transposed_matrices(scope, stride), transposed_bias(scope, stride))


def transposed_matrices(scope: WeightScope, stride: int) -> np.ndarray:
    """Return the matrices [kernel / stride, stride * outputs, inputs] of `transposed_taps`."""
    weight = kernel_of(scope)
    inputs, outputs, kernel = weight.shape
    by_delay = weight.reshape(inputs, outputs, kernel // stride, stride).transpose(2, 3, 1, 0)
    matrices: np.ndarray = by_delay[::-1].reshape(kernel // stride, stride * outputs, inputs)
    return matrices


def transposed_bias(scope: WeightScope, stride: int) -> np.ndarray | None:
    """Return the bias [stride * outputs] of `transposed_taps`, None where the file has none."""
    bias = bias_of(scope)
    return None if bias is None else np.tile(bias, stride)


def kernel_matrices(scope: WeightScope) -> np.ndarray:
    """Return `weight` as matrices [kernel, outputs, inputs]."""
    return _Kernel(scope, kernel_shape(scope)).matrices()


def pointwise_taps(scope: WeightScope, *, many: bool = True) -> Taps:
    """Return `Taps` of a matrix `weight` (outputs, inputs) and `bias`; `many` as in `kernel_taps`."""
    outputs, inputs = scope.shape("weight")[:2]
    return _taps(_Kernel(scope, (outputs, inputs, 1)), _Geometry(many=many))


def kernel_shape(scope: WeightScope) -> tuple[int, int, int]:
    """Return the shape of `weight` with its three axes; a file may have dropped leading axes of length one."""
    first, second, third = (1, 1, 1, *scope.shape("weight"))[-3:]
    return first, second, third


def kernel_of(scope: WeightScope) -> np.ndarray:
    """Return `weight` with its three axes."""
    return scope.array("weight").reshape(kernel_shape(scope))


def bias_of(scope: WeightScope) -> np.ndarray | None:
    """Return `bias` as [outputs], None where the file has none."""
    return scope.array("bias").reshape(-1) if "bias" in scope else None


@dataclass(frozen=True)
class _Geometry:
    """What the caller says about a convolution; see `kernel_taps`."""

    stride: int = 1
    dilation: int = 1
    groups: int = 1
    many: bool = False
    period: int = 0


@dataclass(frozen=True)
class _Kernel:
    """`weight` and `bias` of a scope.

    Attributes:
        shape: (outputs, inputs of a group, kernel).
    """

    scope: WeightScope
    shape: tuple[int, int, int]

    def array(self) -> np.ndarray:
        return self.scope.array("weight").reshape(self.shape)

    def matrices(self) -> np.ndarray:
        """[kernel, outputs, inputs]."""
        return np.ascontiguousarray(self.array().transpose(2, 0, 1))

    def plan(self, geometry: _Geometry) -> ConvPlan:
        bias, weights, name = bias_of(self.scope), self.scope.weights, self.scope.full_name("weight")
        if weights.has_floats(name):
            return ConvPlan.of_file(
                weights.file,
                name,
                self.shape,
                bias,
                geometry.dilation,
                stride=geometry.stride,
                groups=geometry.groups,
                packed=not geometry.many,
                period=geometry.period,
                threads=weights.threads,
            )
        dilation, stride, groups = geometry.dilation, geometry.stride, geometry.groups
        return ConvPlan(self.matrices(), bias, dilation, stride=stride, groups=groups)


def _taps(kernel: _Kernel, geometry: _Geometry) -> Taps:
    scope, groups = kernel.scope, geometry.groups
    if kernel.shape[0] % groups:
        raise ValueError(f"{kernel.shape[0]} outputs do not make {groups} equal groups")
    if scope.weights.on_cpu:
        return FusedTaps(kernel.plan(geometry))
    bias = bias_of(scope)
    if groups > 1:
        return ShiftedGroupedTaps(scope, kernel.array(), bias, geometry.dilation, groups)
    if geometry.stride > 1:
        return StridedTaps(scope, kernel.array(), bias, geometry.stride)
    return UnfoldedTaps(scope, kernel.matrices(), bias, geometry.dilation)


def _constants(scope: WeightScope, matrices: np.ndarray) -> list[Tensor]:
    return [
        scope.constant(f"tap{index}", np.ascontiguousarray(matrix), matrix=True)
        for index, matrix in enumerate(matrices)
    ]


def _sum_of_products(matrices: list[Tensor], x: Tensor, time: int, dilation: int) -> Tensor:
    y = matrices[0] @ x.slice(1, 0, time)
    for index in range(1, len(matrices)):
        y = y + matrices[index] @ x.slice(1, index * dilation, time)
    return y


def _plus(y: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    if bias is not None:
        y = y + bias
    return y if residual is None else residual + y
