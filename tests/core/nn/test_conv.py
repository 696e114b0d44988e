"""Convolutions against their definitions in float64, whole and as streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from ggtts.core.engine import ConvPlan, Engine, Tensor, WeightScope
from ggtts.core.nn.activations import Elu
from ggtts.core.nn.conv import (
    CausalConv1d,
    CausalConvTranspose1d,
    CausalDepthwiseConv1d,
    SameConv1d,
)
from ggtts.core.nn.streaming import StreamState
from ggtts.core.nn.taps import FusedTaps, StridedTaps, UnfoldedTaps
from support import reference_conv as reference
from support.comparing import deviation, same
from support.tolerances import LAYER

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]
Streamable = CausalConv1d | CausalConvTranspose1d | CausalDepthwiseConv1d

RANDOM = np.random.default_rng(3)


def signal(time: int, channels: int) -> np.ndarray:
    return RANDOM.standard_normal((time, channels)).astype(np.float32)


def kernel(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def whole(engine: Engine, layer: Callable[[Tensor], Tensor], x: np.ndarray) -> np.ndarray:
    """The layer on the whole sequence x [time, channels]."""
    graph = engine.graph()
    y = layer(graph.input("x", x.shape[::-1]))
    return graph.program({"y": y})(x=x)["y"].reshape(y.shape[1::-1])


def in_pieces(engine: Engine, layer: Streamable, x: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """The layer on x [time, channels] as a stream of pieces of these lengths."""
    state = StreamState(engine, layer.memory)
    pieces, begin = [], 0
    for length in lengths:
        graph = engine.graph()
        y = layer(graph.input("x", (x.shape[1], length)), state.view(graph))
        program = graph.program({"y": y})
        pieces.append(program(x=x[begin : begin + length])["y"].reshape(y.shape[1::-1]))
        begin += length
    return np.concatenate(pieces)


@pytest.mark.parametrize(
    ("inputs", "outputs", "taps", "dilation"), [(5, 7, 7, 1), (8, 8, 7, 9), (1, 6, 3, 1), (6, 1, 7, 1)]
)
def test_causal(
    engine: Engine, scope_of: ScopeOf, inputs: int, outputs: int, taps: int, dilation: int
) -> None:
    weight, bias, x = kernel(outputs, inputs, taps), kernel(outputs), signal(40, inputs)
    layer = CausalConv1d(scope_of({"weight": weight, "bias": bias}), dilation=dilation)
    expected = reference.causal_conv(x, weight, bias, dilation=dilation)
    assert deviation(whole(engine, layer, x), expected) < LAYER
    assert deviation(in_pieces(engine, layer, x, [1, 2, 30, 7]), expected) < LAYER


def test_pointwise_has_no_memory(engine: Engine, scope_of: ScopeOf) -> None:
    weight, x = kernel(4, 6, 1), signal(9, 6)
    layer = CausalConv1d(scope_of({"weight": weight}))
    assert deviation(whole(engine, layer, x), x @ weight[:, :, 0].T) < LAYER
    assert layer.memory(lambda shape: pytest.fail(f"asked for {shape}")) is None


@pytest.mark.parametrize("time", [1, 11, 12, 13, 24])
@pytest.mark.parametrize(("stride", "taps"), [(4, 8), (6, 12), (3, 3)])
def test_strided(engine: Engine, scope_of: ScopeOf, time: int, stride: int, taps: int) -> None:
    weight, bias, x = kernel(5, 3, taps), kernel(5), signal(time, 3)
    layer = CausalConv1d(scope_of({"weight": weight, "bias": bias}), stride=stride)
    expected = reference.causal_conv(x, weight, bias, stride=stride)
    assert deviation(whole(engine, layer, x), expected) < LAYER


def test_strided_stream_ends_ragged(engine: Engine, scope_of: ScopeOf) -> None:
    weight, bias, x = kernel(5, 3, 8), kernel(5), signal(29, 3)
    layer = CausalConv1d(scope_of({"weight": weight, "bias": bias}), stride=4)
    expected = reference.causal_conv(x, weight, bias, stride=4)
    assert deviation(in_pieces(engine, layer, x, [4, 16, 9]), expected) < LAYER


@pytest.mark.parametrize("time", [1, 6, 7])
def test_replicated_edges(engine: Engine, scope_of: ScopeOf, time: int) -> None:
    weight, x = kernel(4, 4, 4), signal(time, 4)
    layer = CausalConv1d(scope_of({"weight": weight}), stride=2, padding="replicate")
    expected = reference.causal_conv(x, weight, np.zeros(4), stride=2, edge="edge")
    assert deviation(whole(engine, layer, x), expected) < LAYER


def test_a_stream_cannot_replicate(engine: Engine, scope_of: ScopeOf) -> None:
    layer = CausalConv1d(scope_of({"weight": kernel(4, 4, 4)}), stride=2, padding="replicate")
    with pytest.raises(ValueError, match="cannot replicate"):
        in_pieces(engine, layer, signal(4, 4), [4])


@pytest.mark.parametrize("many", [False, True])
def test_activation_acts_on_the_input(engine: Engine, scope_of: ScopeOf, many: bool) -> None:
    weight, bias, x = kernel(5, 3, 3), kernel(5), signal(12, 3)
    layer = CausalConv1d(scope_of({"weight": weight, "bias": bias}), activation=Elu(), many=many)
    expected = reference.causal_conv(np.where(x > 0, x, np.expm1(x)), weight, bias)
    assert deviation(whole(engine, layer, x), expected) < LAYER
    assert deviation(in_pieces(engine, layer, x, [5, 7]), expected) < LAYER


@pytest.mark.parametrize(("stride", "taps"), [(2, 2), (5, 10), (3, 9)])
def test_transposed(engine: Engine, scope_of: ScopeOf, stride: int, taps: int) -> None:
    weight, bias, x = kernel(6, 4, taps), kernel(4), signal(10, 6)
    layer = CausalConvTranspose1d(scope_of({"weight": weight, "bias": bias}), stride=stride)
    expected = reference.causal_conv_transpose(x, weight, bias, stride=stride)
    assert deviation(whole(engine, layer, x), expected) < LAYER
    if taps > stride:  # else there is no past to remember
        assert deviation(in_pieces(engine, layer, x, [1, 3, 6]), expected) < LAYER


def test_kernel_that_the_stride_does_not_divide(scope_of: ScopeOf) -> None:
    scope = scope_of({"weight": kernel(4, 4, 7)})
    with pytest.raises(ValueError, match="not a multiple of the stride 2"):
        CausalConv1d(scope, stride=2)
    with pytest.raises(ValueError, match="not a multiple of the stride 2"):
        CausalConvTranspose1d(scope, stride=2)


def test_depthwise(engine: Engine, scope_of: ScopeOf) -> None:
    weight, bias, x = kernel(6, 1, 7), kernel(6), signal(20, 6)
    layer = CausalDepthwiseConv1d(scope_of({"weight": weight, "bias": bias}))
    full = np.zeros((6, 6, 7), np.float32)
    full[np.arange(6), np.arange(6)] = weight[:, 0]
    expected = reference.causal_conv(x, full, bias)
    assert deviation(whole(engine, layer, x), expected) < LAYER
    assert deviation(in_pieces(engine, layer, x, [1, 1, 18]), expected) < LAYER


@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (3, 1), (3, 4), (5, 1)])
def test_mirrored_edges(engine: Engine, scope_of: ScopeOf, taps: int, dilation: int) -> None:
    weight, bias, x = kernel(4, 3, taps), kernel(4), signal(9, 3)
    layer = SameConv1d(scope_of({"weight": weight, "bias": bias}), dilation=dilation)
    expected = reference.same_conv(x, weight, bias, dilation=dilation)
    assert deviation(whole(engine, layer, x), expected) < LAYER


def test_too_short_to_mirror(engine: Engine, scope_of: ScopeOf) -> None:
    layer = SameConv1d(scope_of({"weight": kernel(4, 3, 3)}), dilation=4)
    with pytest.raises(ValueError, match="4 positions are too few"):
        whole(engine, layer, signal(4, 3))


def test_half_precision_weights_do_not_round_the_activations(engine: Engine, scope_of: ScopeOf) -> None:
    weight, x = kernel(5, 6, 3).astype(np.float16), signal(12, 6)
    layer = CausalConv1d(scope_of({"weight": weight}))
    expected = reference.causal_conv(x, weight, np.zeros(5))
    assert deviation(whole(engine, layer, x), expected) < LAYER


def test_pieces_equal_the_whole_to_the_last_bit(engine: Engine, scope_of: ScopeOf) -> None:
    weight, bias, x = kernel(24, 32, 7), kernel(24), signal(64, 32)
    layer = CausalConv1d(scope_of({"weight": weight, "bias": bias}), dilation=3)
    assert same(in_pieces(engine, layer, x, [1, 2, 4, 8, 16, 33]), whole(engine, layer, x))


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("inputs", "outputs", "count", "dilation"), [(5, 7, 7, 1), (12, 3, 2, 4), (9, 20, 1, 1)]
)
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_operations_of_other_devices_agree_with_the_fused_one(
    engine: Engine, scope_of: ScopeOf, inputs: int, outputs: int, count: int, dilation: int, with_bias: bool
) -> None:
    matrices, bias = kernel(count, outputs, inputs), kernel(outputs) if with_bias else None
    x = signal(30, inputs)
    fused = FusedTaps(ConvPlan(matrices, bias, dilation))
    shifted = UnfoldedTaps(scope_of({"unused": x}), matrices, bias, dilation)
    assert fused.reach == shifted.reach == (count - 1) * dilation + 1
    assert deviation(whole(engine, shifted, x), whole(engine, fused, x)) < LAYER


@pytest.mark.cpu_only
@pytest.mark.parametrize(("stride", "taps"), [(2, 3), (5, 10), (4, 1), (3, 3)])
def test_strides_on_other_devices_agree_with_the_fused_ones(
    engine: Engine, scope_of: ScopeOf, stride: int, taps: int
) -> None:
    weight, bias, x = kernel(6, 4, taps), kernel(6), signal(7 * stride + taps, 4)
    fused = FusedTaps(ConvPlan(np.ascontiguousarray(weight.transpose(2, 0, 1)), bias, stride=stride))
    strided = StridedTaps(scope_of({"unused": x}), weight, bias, stride)
    assert deviation(whole(engine, strided, x), whole(engine, fused, x)) < LAYER


@pytest.mark.cpu_only
@pytest.mark.parametrize("fused", [False, True])
def test_a_residual_is_added(engine: Engine, scope_of: ScopeOf, fused: bool) -> None:
    weight, x = kernel(4, 4, 1), signal(9, 4)
    scope = scope_of({"weight": weight})
    matrices = np.ascontiguousarray(weight.transpose(2, 0, 1))
    taps = FusedTaps(ConvPlan(matrices, None)) if fused else UnfoldedTaps(scope, matrices, None, 1)
    y = whole(engine, lambda tensor: taps(tensor, tensor), x)
    assert deviation(y, x + x.astype(np.float64) @ weight[:, :, 0].T) < LAYER
