"""The fused convolution and snake against numpy, for every instruction set of this processor."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import ConvPlan, Engine

pytestmark = pytest.mark.cpu_only

INSTRUCTION_SETS = _native.instruction_sets()

# Rounding of float32 sums of up to 7 * 700 products of unit scale.
TOLERANCE = 3e-5


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine("cpu", threads=2)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def reference(x: np.ndarray, matrices: np.ndarray, bias: np.ndarray | None, dilation: int) -> np.ndarray:
    """x [past + time, inputs], matrices [taps, outputs, inputs] -> [time, outputs] in float64."""
    time = len(x) - (len(matrices) - 1) * dilation
    y = sum(x[k * dilation : k * dilation + time].astype(np.float64) @ m.T for k, m in enumerate(matrices))
    return np.asarray(y if bias is None else y + bias)


def convolve(engine: Engine, x: np.ndarray, plan: ConvPlan, outputs: int) -> np.ndarray:
    graph = engine.graph()
    program = graph.program({"y": graph.input("x", (x.shape[1], len(x))).conv1d(plan)})
    return program(x=x)["y"].reshape(-1, outputs)


# taps, outputs, inputs, dilation, time: the kinds of the codec, and sizes that fit no vector or tile
SHAPES = [
    (7, 96, 96, 1, 500),
    (7, 96, 96, 9, 33),
    (1, 96, 48, 1, 97),
    (2, 40, 24, 1, 7),
    (7, 1, 96, 1, 300),
    (7, 3, 10, 3, 9),
    (7, 64, 1, 1, 250),
    (3, 128, 700, 2, 13),
    (1, 33, 17, 1, 1),
    (5, 4, 5, 4, 194),
]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize(("taps", "outputs", "inputs", "dilation", "time"), SHAPES)
def test_convolution(
    engine: Engine, instruction_set: str, taps: int, outputs: int, inputs: int, dilation: int, time: int
) -> None:
    matrices = random(taps, outputs, inputs) / np.float32(np.sqrt(taps * inputs))
    x = random(time + (taps - 1) * dilation, inputs)
    for bias in (None, random(outputs)):
        plan = ConvPlan(matrices, bias, dilation, instruction_set)
        y = convolve(engine, x, plan, outputs)
        np.testing.assert_allclose(y, reference(x, matrices, bias, dilation), atol=TOLERANCE)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("outputs", [1, 50])
def test_a_sample_does_not_depend_on_its_neighbours(
    engine: Engine, instruction_set: str, outputs: int
) -> None:
    """A stream equals the whole to the last bit, whatever its pieces and however many threads compute it."""
    plan = ConvPlan(random(3, outputs, 21), random(outputs), 2, instruction_set)
    x = random(400 + plan.past, 21)
    whole = convolve(engine, x, plan, outputs)
    np.testing.assert_array_equal(convolve(Engine("cpu", threads=1), x, plan, outputs), whole)
    for start, length in [(0, 1), (7, 5), (13, 96), (100, 97), (250, 150)]:
        piece = convolve(engine, x[start : start + length + plan.past], plan, outputs)
        np.testing.assert_array_equal(piece, whole[start : start + length])


@pytest.mark.parametrize("channels", [1, 16, 40, 96])
def test_snake(engine: Engine, channels: int) -> None:
    generator = np.random.default_rng(channels)
    x = (generator.standard_normal((50, channels)) * 20).astype(np.float32)
    frequency, magnitude = generator.uniform(0.1, 30, (2, channels)).astype(np.float32)
    graph = engine.graph()
    inputs = [graph.input("x", (channels, 50)), graph.input("f", (channels,)), graph.input("m", (channels,))]
    program = graph.program({"y": inputs[0].snake(inputs[1], inputs[2])})
    y = program(x=x, f=frequency, m=magnitude)["y"].reshape(50, channels)
    # The product x * frequency is rounded to float32 before the sine, as it is in PyTorch.
    expected = x + np.sin((x * frequency).astype(np.float64)) ** 2 * magnitude
    np.testing.assert_allclose(y, expected, atol=5e-6)


def test_wrong_plans_raise(engine: Engine) -> None:
    with pytest.raises(ValueError, match="no kernels called 'mmx'"):
        ConvPlan(random(1, 4, 4), None, 1, "mmx")
    with pytest.raises(ValueError, match="a bias of 3 values for 4 outputs"):
        ConvPlan(random(1, 4, 4), random(3))
    with pytest.raises(ValueError, match="without weights"):
        ConvPlan(random(1, 4, 4), None, 0)
    plan = ConvPlan(random(3, 4, 5), None)
    graph = engine.graph()
    for shape in [(4, 10), (5, 2), (5, 10, 2)]:
        with pytest.raises(ValueError, match="conv1d"):
            graph.input(str(shape), shape).conv1d(plan)
