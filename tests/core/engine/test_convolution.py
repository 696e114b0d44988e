"""The fused convolution against numpy, for every instruction set of this processor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import ConvPlan, Engine
from support.random_weights import write_weights
from support.reference_conv import conv as reference_conv
from support.reference_conv import conv_transpose as reference_conv_transpose

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
    x = random(400 + (plan.reach - 1), 21)
    whole = convolve(engine, x, plan, outputs)
    np.testing.assert_array_equal(convolve(Engine("cpu", threads=1), x, plan, outputs), whole)
    for start, length in [(0, 1), (7, 5), (13, 96), (100, 97), (250, 150)]:
        piece = convolve(engine, x[start : start + length + (plan.reach - 1)], plan, outputs)
        np.testing.assert_array_equal(piece, whole[start : start + length])


@dataclass(frozen=True)
class Kind:
    """A kind of convolution: (outputs, inputs of a group, taps), and how many outputs are computed."""

    outputs: int
    inputs: int
    taps: int
    time: int
    groups: int = 1
    dilation: int = 1
    stride: int = 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.outputs, self.inputs, self.taps


# The kinds of both codecs' encoders, and sizes that fit no vector, panel or block
KINDS = [
    Kind(64, 1, 7, 300),
    Kind(64, 64, 7, 120, dilation=9),
    Kind(32, 64, 3, 2050),
    Kind(128, 64, 8, 200, stride=4),
    Kind(512, 512, 3, 97, stride=2),
    Kind(512, 512, 2, 50, stride=2),
    Kind(512, 1, 10, 100, stride=5),
    Kind(192, 48, 128, 70, groups=4),
    Kind(96, 512, 16, 20, stride=8),
    Kind(256, 1024, 7, 30),
    Kind(64, 3072, 1, 100),
    Kind(33, 17, 1, 1),
    Kind(1, 40, 3, 5),
    Kind(5, 700, 3, 13, dilation=2),
    Kind(50, 3, 2, 9, groups=2, stride=3),
    Kind(12, 3, 130, 9, groups=2, dilation=2),
    Kind(9, 3, 3, 30, groups=3, dilation=2),
]


def operands(kind: Kind, dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weight of a type, bias, input (with samples that make no whole stride) and residual."""
    generator = np.random.default_rng(kind.outputs + kind.taps)
    weight = generator.standard_normal(kind.sizes) / np.sqrt(kind.inputs * kind.taps)
    read = (kind.time - 1) * kind.stride + (kind.taps - 1) * kind.dilation + 1 + kind.stride // 2
    shapes = [(kind.outputs,), (read, kind.groups * kind.inputs), (kind.time, kind.outputs)]
    bias, x, residual = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    return weight.astype(dtype), bias, x, residual


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_of_a_file(
    engine: Engine, tmp_path: Path, instruction_set: str, dtype: type, kind: Kind
) -> None:
    """Read where they lie or packed from arrays: strides, groups, and what is added to the result."""
    weight, bias, x, residual = operands(kind, dtype)
    weights = engine.weights(write_weights(tmp_path / "weights.gguf", {"weight": weight}))
    exact = weight.astype(np.float32)
    settings = {"stride": kind.stride, "groups": kind.groups}
    stored = ConvPlan.of_file(
        weights.file, "weight", kind.sizes, bias, kind.dilation, instruction_set, **settings
    )
    matrices = np.ascontiguousarray(exact.transpose(2, 0, 1))
    packed = ConvPlan(matrices, bias, kind.dilation, instruction_set, **settings)
    graph = engine.graph()
    inputs = graph.input("x", x.shape[::-1]), graph.input("residual", residual.shape[::-1])
    packed_from_file = ConvPlan.of_file(
        weights.file, "weight", kind.sizes, bias, kind.dilation, instruction_set, packed=True, **settings
    )
    packed_by_many = ConvPlan.of_file(
        weights.file,
        "weight",
        kind.sizes,
        bias,
        kind.dilation,
        instruction_set,
        packed=True,
        threads=3,
        **settings,
    )
    plans = {
        "stored": stored,
        "packed": packed,
        "packed_from_file": packed_from_file,
        "packed_by_many": packed_by_many,
    }
    tensors = {name: inputs[0].conv1d(plan, inputs[1]) for name, plan in plans.items()}
    expected = residual + reference_conv(
        x, exact, bias, stride=kind.stride, dilation=kind.dilation, groups=kind.groups
    )
    results = graph.program(tensors)(x=x, residual=residual)
    np.testing.assert_array_equal(results["packed_from_file"], results["packed"])
    np.testing.assert_array_equal(results["packed_by_many"], results["packed"])
    for y in results.values():
        np.testing.assert_allclose(y.reshape(expected.shape), expected, atol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_of_a_file_whatever_the_pieces(engine: Engine, tmp_path: Path, kind: Kind) -> None:
    weight, bias, x, _ = operands(kind, np.float32)
    file = engine.weights(write_weights(tmp_path / "weights.gguf", {"weight": weight})).file
    settings = {"stride": kind.stride, "groups": kind.groups}
    plan = ConvPlan.of_file(file, "weight", kind.sizes, bias, kind.dilation, **settings)
    whole = convolve(engine, x, plan, kind.outputs)
    np.testing.assert_array_equal(convolve(Engine("cpu", threads=1), x, plan, kind.outputs), whole)
    for first, time in [(0, 1), (kind.time // 2, kind.time - kind.time // 2)]:
        piece = x[first * kind.stride : (first + time - 1) * kind.stride + plan.reach]
        np.testing.assert_array_equal(
            convolve(engine, piece, plan, kind.outputs), whole[first : first + time]
        )


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride"),
    [(64, 32, 8, 4), (48, 96, 10, 5), (7, 5, 9, 3), (5, 50, 6, 2), (6, 1, 4, 2), (9, 20, 3, 3)],
)
def test_transposed_weights_of_a_file(
    engine: Engine,
    tmp_path: Path,
    instruction_set: str,
    dtype: type,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
) -> None:
    generator = np.random.default_rng(kernel)
    weight = (generator.standard_normal((inputs, outputs, kernel)) / np.sqrt(inputs)).astype(dtype)
    bias, x = (generator.standard_normal(shape).astype(np.float32) for shape in (outputs, (40, inputs)))
    weights = engine.weights(write_weights(tmp_path / "weights.gguf", {"weight": weight}))
    plan, plan_of_many = (
        ConvPlan.transposed_of_file(
            weights.file, "weight", weight.shape, bias, stride, instruction_set, threads=threads
        )
        for threads in (1, 4)
    )
    past = kernel // stride - 1
    assert plan.reach == past + 1
    y = convolve(engine, x, plan, stride * outputs).reshape(-1, outputs)
    np.testing.assert_array_equal(convolve(engine, x, plan_of_many, stride * outputs).reshape(y.shape), y)
    expected = reference_conv_transpose(x, weight, bias, stride=stride, padding=0, output_padding=0)
    np.testing.assert_allclose(y, expected[past * stride : past * stride + len(y)], atol=TOLERANCE)


def test_impossible_weights_of_a_file(engine: Engine, tmp_path: Path) -> None:
    arrays = {"f32": random(4, 32), "f16": random(4, 32).astype(np.float16)}
    weights = engine.weights(write_weights(tmp_path / "weights.gguf", arrays))
    assert weights.has_floats("f32")
    assert weights.has_floats("f16")
    with pytest.raises(ValueError, match="has 128 values, not 4 x 5 x 6"):
        ConvPlan.of_file(weights.file, "f32", (4, 5, 6), None)
    with pytest.raises(ValueError, match="without weights"):
        ConvPlan.of_file(weights.file, "f32", (-4, -32, 1), None)
    with pytest.raises(ValueError, match="4 outputs do not make 3 equal groups"):
        ConvPlan.of_file(weights.file, "f32", (4, 32, 1), None, groups=3)
    with pytest.raises(ValueError, match="threads must be at least 1, not 0"):
        ConvPlan.of_file(weights.file, "f32", (4, 32, 1), None, packed=True, threads=0)
    with pytest.raises(ValueError, match="32 is not a multiple of the stride 5"):
        ConvPlan.transposed_of_file(weights.file, "f32", (4, 1, 32), None, 5)


def test_a_residual_of_another_shape(engine: Engine) -> None:
    plan = ConvPlan(random(3, 4, 5), None)
    graph = engine.graph()
    with pytest.raises(ValueError, match="instead of"):
        graph.input("x", (5, 10)).conv1d(plan, graph.input("residual", (4, 9)))


def test_wrong_plans_raise(engine: Engine) -> None:
    with pytest.raises(ValueError, match="no kernels called 'mmx'"):
        ConvPlan(random(1, 4, 4), None, 1, "mmx")
    with pytest.raises(ValueError, match="a bias of 3 values for 4 outputs"):
        ConvPlan(random(1, 4, 4), random(3))
    with pytest.raises(ValueError, match="without weights"):
        ConvPlan(random(1, 4, 4), None, 0)
    plan = ConvPlan(random(3, 4, 5), None)
    graph = engine.graph()
    for shape in [(4, 10), (5, 2), (5, 10, 2, 2)]:
        with pytest.raises(ValueError, match="conv1d"):
            graph.input(str(shape), shape).conv1d(plan)
