"""Transposed convolutions of two taps by pairs of outputs: as exact as the direct sum, and cut between pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import ConvPlan, Engine
from support.random_weights import write_weights
from support.reference_conv import conv_transpose as reference_conv_transpose

pytestmark = pytest.mark.cpu_only

INSTRUCTION_SETS = _native.instruction_sets()

TOLERANCE = 1e-5
"""Rounding of float32 sums of up to 2 * 100 products of unit scale."""


@dataclass(frozen=True)
class Kind:
    """A kind of transposed convolution, whose kernel is two strides, and how many inputs it gets."""

    inputs: int
    outputs: int
    stride: int
    time: int = 40

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.inputs, self.outputs, 2 * self.stride


# The stages of the codec's decoder in small, and sizes that fit no vector, panel or block
KINDS = [
    Kind(64, 32, 8),
    Kind(96, 48, 5),
    Kind(48, 24, 4, 130),
    Kind(24, 12, 3, 130),
    Kind(7, 5, 3),
    Kind(5, 50, 2, 6),
    Kind(100, 1, 7, 2),
    Kind(33, 20, 1, 24),
]


def weight_of(kind: Kind) -> np.ndarray:
    generator = np.random.default_rng(kind.inputs)
    return (generator.standard_normal(kind.sizes) / np.sqrt(2 * kind.inputs)).astype(np.float32)


def bias_of(kind: Kind) -> np.ndarray:
    return np.random.default_rng(kind.outputs).standard_normal(kind.outputs).astype(np.float32)


def input_of(kind: Kind, time: int) -> np.ndarray:
    """Inputs of so many outputs: one more."""
    return np.random.default_rng(kind.time).standard_normal((time + 1, kind.inputs)).astype(np.float32)


def plan_of(
    engine: Engine, folder: Path, kind: Kind, instruction_set: str = "best", period: int = 2
) -> ConvPlan:
    file = engine.weights(write_weights(folder / "weights.gguf", {"weight": weight_of(kind)})).file
    return ConvPlan.transposed_of_file(
        file, "weight", kind.sizes, bias_of(kind), kind.stride, instruction_set, period=period
    )


def convolve(engine: Engine, x: np.ndarray, plan: ConvPlan, kind: Kind) -> np.ndarray:
    """x [lanes ..., time + 1, inputs] -> [lanes ..., time, stride * outputs]."""
    graph = engine.graph()
    program = graph.program({"y": graph.input("x", x.shape[::-1]).conv1d(plan)})
    return program(x=x)["y"].reshape(*x.shape[:-2], -1, kind.stride * kind.outputs)


def expected_of(kind: Kind, x: np.ndarray) -> np.ndarray:
    """In float64: [time, stride * outputs]."""
    y = reference_conv_transpose(
        x, weight_of(kind), bias_of(kind), stride=kind.stride, padding=0, output_padding=0
    )
    return y[kind.stride : kind.stride * len(x)].reshape(len(x) - 1, -1)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("missing", [0, 1])
def test_convolution(tmp_path: Path, instruction_set: str, kind: Kind, missing: int) -> None:
    """Also where the last pair lacks an output."""
    engine = Engine("cpu", threads=2)
    plan, x = plan_of(engine, tmp_path, kind, instruction_set), input_of(kind, kind.time - missing)
    assert plan.reach == 2
    np.testing.assert_allclose(convolve(engine, x, plan, kind), expected_of(kind, x), atol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_residual(tmp_path: Path, kind: Kind) -> None:
    engine = Engine("cpu", threads=2)
    plan, x = plan_of(engine, tmp_path, kind), input_of(kind, kind.time)
    y = convolve(engine, x, plan, kind)
    residual = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
    graph = engine.graph()
    added = graph.input("residual", residual.shape[::-1])
    program = graph.program({"y": graph.input("x", x.shape[::-1]).conv1d(plan, added)})
    np.testing.assert_array_equal(program(x=x, residual=residual)["y"].reshape(y.shape), y + residual)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pieces_of_whole_pairs(tmp_path: Path, instruction_set: str, kind: Kind) -> None:
    """Not a bit differs, whatever follows."""
    engine = Engine("cpu", threads=2)
    plan, x = plan_of(engine, tmp_path, kind, instruction_set), input_of(kind, kind.time)
    whole = convolve(engine, x, plan, kind)
    for begin, end in [(0, 2), (0, kind.time - 1), (kind.time // 4 * 2, kind.time), (0, 1)]:
        np.testing.assert_array_equal(convolve(engine, x[begin : end + 1], plan, kind), whole[begin:end])


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("missing", [0, 1])
def test_threads_and_lanes(tmp_path: Path, kind: Kind, missing: int) -> None:
    alone = Engine("cpu", threads=1)
    plan, x = plan_of(alone, tmp_path, kind), input_of(kind, kind.time - missing)
    lanes = np.stack([x, -2 * x[::-1], x + 1])
    expected = np.stack([convolve(alone, lane, plan, kind) for lane in lanes])
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(convolve(Engine("cpu", threads), lanes, plan, kind), expected)


def test_error(tmp_path: Path) -> None:
    """Next to the exact result it is no worse than the direct sum, though rounded otherwise."""
    engine, kind = Engine("cpu", threads=2), Kind(384, 48, 4, 100)
    x = input_of(kind, kind.time)
    exact = expected_of(kind, x)
    pairs, direct = (
        convolve(engine, x, plan_of(engine, tmp_path, kind, period=period), kind) for period in (2, 0)
    )
    assert not np.array_equal(pairs, direct)
    assert ((pairs - exact) ** 2).mean() < 1.2 * ((direct - exact) ** 2).mean()


@pytest.mark.parametrize("period", [0, 1, 5])
def test_odd_periods(tmp_path: Path, period: int) -> None:
    """The direct sum, bit for bit."""
    engine, kind = Engine("cpu", threads=2), KINDS[0]
    x = input_of(kind, kind.time)
    by_delay = weight_of(kind).reshape(kind.inputs, kind.outputs, 2, kind.stride).transpose(2, 3, 1, 0)
    matrices = by_delay[::-1].reshape(2, kind.stride * kind.outputs, kind.inputs)
    direct = ConvPlan(np.ascontiguousarray(matrices), np.tile(bias_of(kind), kind.stride))
    plan = plan_of(engine, tmp_path, kind, period=period)
    np.testing.assert_array_equal(convolve(engine, x, plan, kind), convolve(engine, x, direct, kind))
