"""Convolutions that look both ways against their definitions in float64, whole and tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from ggtts.core.engine import ConvPlan, Engine, WeightScope
from ggtts.core.nn.activations import Elu
from ggtts.core.nn.centred_conv import Conv1d, ConvTranspose1d
from ggtts.core.nn.conv import PointwiseConv1d
from ggtts.core.nn.stages import StagesOf
from ggtts.core.nn.stretch import Span, Stretch
from ggtts.core.nn.taps import FusedTaps, ShiftedGroupedTaps
from ggtts.core.nn.tiling import Applied, in_tiles, whole_in_tiles
from support import reference_conv as reference
from support.comparing import deviation, same
from support.tolerances import LAYER

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]

RANDOM = np.random.default_rng(7)


@dataclass(frozen=True)
class Layers:
    """Layers one after the other, as a network."""

    layers: tuple[Conv1d | ConvTranspose1d, ...]

    def length(self, total: int) -> int:
        for layer in self.layers:
            total = layer.length(total)
        return total

    def needs(self, wanted: Span) -> Span:
        for layer in reversed(self.layers):
            wanted = layer.needs(wanted)
        return wanted

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        for layer in self.layers:
            x = layer(x)
        yield "last", x
        return x


def signal(time: int, channels: int) -> np.ndarray:
    return RANDOM.standard_normal((time, channels)).astype(np.float32)


def kernel(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def whole(engine: Engine, layer: Conv1d | ConvTranspose1d, x: np.ndarray) -> np.ndarray:
    """The layer on the whole sequence x [time, channels]."""
    network = Applied(Layers((layer,)), x)
    return whole_in_tiles(engine, network, network.outputs)


def cuts(engine: Engine, network: Layers, x: np.ndarray, lengths: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The network on x [time, channels] in tiles of these lengths."""
    for length in lengths:
        yield whole_in_tiles(engine, Applied(network, x), length)


@pytest.mark.parametrize(
    ("inputs", "outputs", "taps", "settings"),
    [
        (5, 7, 7, {"before": 3, "after": 3}),
        (8, 8, 7, {"before": 9, "after": 9, "dilation": 3}),
        (1, 6, 4, {"before": 2, "after": 1}),
        (6, 1, 3, {}),
        (4, 5, 8, {"stride": 4, "before": 2, "after": 2}),
        (4, 5, 10, {"stride": 5, "before": 3, "after": 3}),
        (4, 5, 3, {"stride": 2}),
        (1, 6, 10, {"stride": 5}),
        (3, 4, 2, {"stride": 2}),
        (12, 8, 6, {"groups": 4, "before": 3, "after": 2}),
        (9, 9, 3, {"groups": 3, "dilation": 2}),
    ],
)
@pytest.mark.parametrize("with_bias", [False, True])
def test_convolution(
    engine: Engine,
    scope_of: ScopeOf,
    inputs: int,
    outputs: int,
    taps: int,
    settings: dict[str, int],
    with_bias: bool,
) -> None:
    weight, x = kernel(outputs, inputs // settings.get("groups", 1), taps), signal(61, inputs)
    bias = kernel(outputs) if with_bias else np.zeros(outputs, np.float32)
    arrays = {"weight": weight, "bias": bias} if with_bias else {"weight": weight}
    layer = Conv1d(scope_of(arrays), **settings)
    expected = reference.conv(x, weight, bias, **settings)
    undivided = whole(engine, layer, x)
    assert layer.length(len(x)) == len(expected)
    assert deviation(undivided, expected) < LAYER
    for tiled in cuts(engine, Layers((layer,)), x, (1, 3, 8, 50)):
        assert same(tiled, undivided)


@pytest.mark.parametrize("time", [1, 2, 21])
@pytest.mark.parametrize(("stride", "taps"), [(8, 16), (5, 10), (4, 8), (2, 4), (3, 6), (3, 9), (4, 4)])
def test_transposed(engine: Engine, scope_of: ScopeOf, stride: int, taps: int, time: int) -> None:
    weight, bias, x = kernel(6, 4, taps), kernel(4), signal(time, 6)
    cut, extra = -(-stride // 2), stride % 2
    layer = ConvTranspose1d(scope_of({"weight": weight, "bias": bias}), stride=stride, cut=cut, extra=extra)
    expected = reference.conv_transpose(x, weight, bias, stride=stride, padding=cut, output_padding=extra)
    if not len(expected):
        return
    undivided = whole(engine, layer, x)
    assert deviation(undivided, expected) < LAYER
    for tiled in cuts(engine, Layers((layer,)), x, (stride, 3 * stride, 8 * stride)):
        assert same(tiled, undivided)


def test_a_chain_of_layers_in_tiles(engine: Engine, scope_of: ScopeOf) -> None:
    """Up by 5 and down by 3, with an activation before each: whatever the tiles, the same bits."""

    def scope(name: str, *shape: int) -> WeightScope:
        return scope_of({f"{name}.weight": kernel(*shape), f"{name}.bias": kernel(4)}).scope(f"{name}.")

    network = Layers(
        (
            Conv1d(scope("a", 4, 4, 7), before=3, after=3),
            ConvTranspose1d(scope("b", 4, 4, 10), stride=5, cut=3, extra=1, activation=Elu()),
            Conv1d(scope("c", 4, 4, 7), dilation=9, before=27, after=27, activation=Elu()),
            Conv1d(scope("d", 4, 4, 6), stride=3, before=2, after=2, activation=Elu()),
        )
    )
    x = signal(90, 4)
    undivided = whole_in_tiles(engine, Applied(network, x), 1000)
    assert len(undivided) == network.length(90) == 150
    for tiled in cuts(engine, network, x, (5, 10, 25, 65)):
        assert same(tiled, undivided)


def test_a_tile_needs_no_more_than_it_is_said_to(engine: Engine, scope_of: ScopeOf) -> None:
    layer = Conv1d(scope_of({"weight": kernel(4, 4, 7)}), dilation=2, before=6, after=6)
    assert layer.needs(Span(10, 20)) == Span(4, 26)
    x = signal(40, 4)
    tile = list(in_tiles(engine, Applied(Layers((layer,)), x), 10))[1]
    x[:4] = x[26:] = np.nan
    assert (list(in_tiles(engine, Applied(Layers((layer,)), x), 10))[1] == tile).all()


def test_impossible_settings(scope_of: ScopeOf) -> None:
    scope = scope_of({"weight": kernel(4, 4, 7)})
    with pytest.raises(ValueError, match="neither dilation nor groups"):
        Conv1d(scope, stride=2, dilation=3)
    with pytest.raises(ValueError, match="4 outputs do not make 3 equal groups"):
        Conv1d(scope, groups=3)
    with pytest.raises(ValueError, match="not a multiple of the stride 2"):
        ConvTranspose1d(scope, stride=2)
    with pytest.raises(ValueError, match="1 extra positions where 0 are cut away"):
        ConvTranspose1d(scope, stride=7, extra=1)


def test_too_short_for_the_kernel(engine: Engine, scope_of: ScopeOf) -> None:
    layer = Conv1d(scope_of({"weight": kernel(4, 4, 7)}))
    with pytest.raises(ValueError, match="are none"):
        layer(Stretch.whole(engine.graph().input("x", (4, 6))))


@pytest.mark.cpu_only
@pytest.mark.parametrize("groups", [1, 2, 5, 8])
@pytest.mark.parametrize("with_bias", [False, True])
def test_grouped_operations_of_other_devices_agree_with_the_fused_ones(
    engine: Engine, scope_of: ScopeOf, groups: int, with_bias: bool
) -> None:
    weight, bias = kernel(groups * 4, 3, 6), kernel(groups * 4) if with_bias else None
    x = signal(30, groups * 3)
    matrices = np.ascontiguousarray(weight.transpose(2, 0, 1))
    fused = FusedTaps(ConvPlan(matrices, bias, 2, groups=groups))
    shifted = ShiftedGroupedTaps(scope_of({"unused": x}), weight, bias, 2, groups)
    assert fused.reach == shifted.reach == 11
    graph = engine.graph()
    tensor = graph.input("x", x.shape[::-1])
    result = graph.program({"fused": fused(tensor), "shifted": shifted(tensor)})(x=x)
    assert deviation(result["shifted"], result["fused"]) < LAYER


def test_pointwise(engine: Engine, scope_of: ScopeOf) -> None:
    weight, bias, x = kernel(6, 5), kernel(6), signal(9, 5)
    layer = PointwiseConv1d(scope_of({"weight": weight, "bias": bias}))
    graph = engine.graph()
    y = graph.program({"y": layer(graph.input("x", (5, 9)))})(x=x)["y"]
    assert deviation(y, x.astype(np.float64) @ weight.T + bias) < LAYER
