"""Convolution by minimal filtering: as exact as the direct sum, and cut wherever a period ends without a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import ConvPlan, Engine
from support.random_weights import write_weights
from support.reference_conv import conv as reference_conv

pytestmark = pytest.mark.cpu_only

INSTRUCTION_SETS = _native.instruction_sets()

# Rounding of float32 sums of up to 7 * 96 products of unit scale, and of the transforms.
TOLERANCE = 3e-5


@dataclass(frozen=True)
class Kind:
    """A kind of convolution, and how many periods are computed."""

    outputs: int
    inputs: int
    taps: int
    dilation: int
    period: int
    periods: int = 3

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.outputs, self.inputs, self.taps

    @property
    def beyond(self) -> int:
        return (self.taps - 1) * self.dilation


# The stages of the codec's decoder in small, and sizes that fit no vector, panel, tile or row of tiles
KINDS = [
    Kind(96, 96, 7, 1, 32),
    Kind(64, 96, 7, 3, 32),
    Kind(96, 64, 7, 9, 32),
    Kind(32, 32, 7, 9, 160),
    Kind(32, 32, 7, 1, 640),
    Kind(33, 50, 5, 1, 7),
    Kind(70, 45, 6, 2, 37, 4),
    Kind(40, 33, 8, 3, 21, 5),
    Kind(48, 40, 7, 3, 38),
    Kind(32, 32, 7, 1, 4, 9),
    Kind(32, 32, 7, 4, 1000, 1),
]


def plan_of(
    engine: Engine,
    folder: Path,
    kind: Kind,
    instruction_set: str,
    dtype: type = np.float32,
    *,
    threads: int = 1,
) -> ConvPlan:
    weight, bias = weight_of(kind).astype(dtype), bias_of(kind)
    path = folder / f"{dtype.__name__}.gguf"
    file = engine.weights(write_weights(path, {"weight": weight})).file
    return ConvPlan.of_file(
        file,
        "weight",
        kind.sizes,
        bias,
        kind.dilation,
        instruction_set,
        packed=True,
        period=kind.period,
        threads=threads,
    )


def weight_of(kind: Kind) -> np.ndarray:
    generator = np.random.default_rng(kind.outputs + kind.taps)
    return (generator.standard_normal(kind.sizes) / np.sqrt(kind.inputs * kind.taps)).astype(np.float32)


def bias_of(kind: Kind) -> np.ndarray:
    return np.random.default_rng(kind.inputs).standard_normal(kind.outputs).astype(np.float32)


def input_of(kind: Kind) -> np.ndarray:
    time = kind.periods * kind.period + kind.beyond
    return np.random.default_rng(time).standard_normal((time, kind.inputs)).astype(np.float32)


def convolve(engine: Engine, x: np.ndarray, plan: ConvPlan, outputs: int) -> np.ndarray:
    """x [lanes ..., time, inputs] -> [lanes ..., time, outputs]."""
    graph = engine.graph()
    program = graph.program({"y": graph.input("x", x.shape[::-1]).conv1d(plan)})
    return program(x=x)["y"].reshape(*x.shape[:-2], -1, outputs)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_convolution(tmp_path: Path, instruction_set: str, dtype: type, kind: Kind) -> None:
    engine = Engine("cpu", threads=2)
    plan = plan_of(engine, tmp_path, kind, instruction_set, dtype)
    weight = weight_of(kind).astype(dtype).astype(np.float32)
    x = input_of(kind)
    residual = np.random.default_rng(1).standard_normal((len(x) - kind.beyond, kind.outputs))
    residual = residual.astype(np.float32)
    graph = engine.graph()
    added = graph.input("residual", residual.shape[::-1])
    program = graph.program({"y": graph.input("x", x.shape[::-1]).conv1d(plan, added)})
    y = program(x=x, residual=residual)["y"].reshape(residual.shape)
    expected = residual + reference_conv(x, weight, bias_of(kind), dilation=kind.dilation)
    np.testing.assert_allclose(y, expected, atol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_transformed_by_several_threads(tmp_path: Path, kind: Kind) -> None:
    engine, x = Engine("cpu", threads=2), input_of(kind)
    alone, shared = (plan_of(engine, tmp_path, kind, "best", threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(
        convolve(engine, x, shared, kind.outputs), convolve(engine, x, alone, kind.outputs)
    )


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pieces_of_whole_periods(tmp_path: Path, instruction_set: str, kind: Kind) -> None:
    """What an output reads may be all there is, or half of the signal: not a bit differs."""
    engine = Engine("cpu", threads=2)
    plan = plan_of(engine, tmp_path, kind, instruction_set)
    x = input_of(kind)
    whole = convolve(engine, x, plan, kind.outputs)
    for first in range(kind.periods):
        for end in {first + 1, kind.periods}:
            begin, stop = first * kind.period, end * kind.period
            piece = convolve(engine, x[begin : stop + kind.beyond], plan, kind.outputs)
            np.testing.assert_array_equal(piece, whole[begin:stop])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_threads_and_lanes(tmp_path: Path, kind: Kind) -> None:
    plan = plan_of(Engine("cpu", threads=1), tmp_path, kind, "best")
    x = input_of(kind)
    lanes = np.stack([x, -2 * x[::-1], x + 1])
    alone = [convolve(Engine("cpu", threads=1), lane, plan, kind.outputs) for lane in lanes]
    for threads in (1, 2, 3):
        together = convolve(Engine("cpu", threads), lanes, plan, kind.outputs)
        np.testing.assert_array_equal(together, np.stack(alone))


def test_a_period_that_ends_early(tmp_path: Path) -> None:
    kind = replace(KINDS[0], period=48)
    plan = plan_of(Engine("cpu", threads=1), tmp_path, kind, "best")
    x = input_of(kind)[: 48 + 21 + kind.beyond]
    y = convolve(Engine("cpu", threads=2), x, plan, kind.outputs)
    expected = reference_conv(x, weight_of(kind), bias_of(kind), dilation=kind.dilation)
    np.testing.assert_allclose(y, expected, atol=TOLERANCE)


@pytest.mark.parametrize("channels", [96, 384])
def test_error(tmp_path: Path, channels: int) -> None:
    """Next to the exact result it is hardly worse than the direct sum, though rounded otherwise."""
    engine = Engine("cpu", threads=2)
    kind = Kind(channels, channels, 7, 1, 100, 1)
    minimal, direct = (
        plan_of(engine, tmp_path, replace(kind, period=period), "best") for period in (kind.period, 3)
    )
    x = input_of(kind)
    exact = reference_conv(x, weight_of(kind), bias_of(kind), dilation=1)
    errors = [np.abs(convolve(engine, x, plan, channels) - exact) for plan in (minimal, direct)]
    spread, direct_spread = (np.sqrt((error**2).mean()) for error in errors)
    assert direct_spread < spread < 2 * direct_spread
    assert errors[0].max() < 3 * errors[1].max()


@pytest.mark.parametrize(
    "kind",
    [
        Kind(96, 96, 7, 9, 12),
        Kind(96, 96, 4, 1, 32),
        Kind(96, 96, 9, 1, 32),
        Kind(96, 16, 7, 1, 32),
        Kind(16, 96, 7, 1, 32),
    ],
    ids=str,
)
def test_where_it_does_not_pay(tmp_path: Path, kind: Kind) -> None:
    """The direct sum, bit for bit."""
    engine = Engine("cpu", threads=2)
    plan = plan_of(engine, tmp_path, kind, "best")
    direct = ConvPlan(np.ascontiguousarray(weight_of(kind).transpose(2, 0, 1)), bias_of(kind), kind.dilation)
    x = input_of(kind)
    np.testing.assert_array_equal(
        convolve(engine, x, plan, kind.outputs), convolve(engine, x, direct, kind.outputs)
    )
