"""The fused activations and layer norm against numpy, for every instruction set of this processor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import Engine
from ggtts.core.engine.engine import STOCK_VARIABLE

INSTRUCTION_SETS = _native.instruction_sets()
CHANNELS = [1, 16, 40, 96, 1021]

HALF_UNIT = 2.0**-24
"""Rounding a result to float32 changes it by at most this part of itself."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The CPU with its own operations, also where the suite asks for one without."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv(STOCK_VARIABLE, raising=False)
        yield Engine("cpu", threads=2)


def activated(
    engine: Engine, name: str, instruction_set: str, x: np.ndarray, *vectors: np.ndarray
) -> np.ndarray:
    graph = engine.graph()
    inputs = {f"v{index}": vector for index, vector in enumerate(vectors)}
    tensors = [graph.input(name, vector.shape) for name, vector in inputs.items()]
    y = graph.input("x", x.shape[::-1]).activate(name, tensors, instruction_set=instruction_set)
    return graph.program({"y": y})(x=x, **inputs)["y"].reshape(x.shape)


def spread(rows: int, channels: int) -> np.ndarray:
    """Values of every size, zero and both ends of what networks compute among them."""
    generator = np.random.default_rng(channels)
    x = generator.standard_normal((rows, channels)) * np.exp(generator.uniform(-15, 3, (rows, channels)))
    x.flat[:5] = 0.0, -0.0, -90.0, 90.0, -1e-7
    return x.astype(np.float32)


@np.vectorize
def exact_gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_gelu(engine: Engine, instruction_set: str, channels: int) -> None:
    x = spread(60, channels)
    exact = exact_gelu(x.astype(np.float64))
    error = np.abs(activated(engine, "gelu", instruction_set, x) - exact)
    assert (error <= 6e-8 + HALF_UNIT * np.abs(exact)).all()


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_gelu_over_its_whole_range(engine: Engine, instruction_set: str) -> None:
    x = np.linspace(-15, 15, 200_000, dtype=np.float32).reshape(-1, 50)
    exact = exact_gelu(x.astype(np.float64))
    error = np.abs(activated(engine, "gelu", instruction_set, x) - exact)
    assert (error <= 6e-8 + HALF_UNIT * np.abs(exact)).all()


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_elu(engine: Engine, instruction_set: str, channels: int) -> None:
    """To the last bit but one, near zero too, where e^x - 1 would cancel."""
    x = spread(60, channels)
    exact = np.where(x > 0, x, np.expm1(np.minimum(x, 0).astype(np.float64)))
    np.testing.assert_allclose(activated(engine, "elu", instruction_set, x), exact, rtol=1.5e-7, atol=1e-38)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_no_number_stays_no_number(engine: Engine, instruction_set: str) -> None:
    x = np.full((2, 40), np.nan, np.float32)
    for name in ("identity", "elu", "gelu"):
        assert np.isnan(activated(engine, name, instruction_set, x)).all()


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_scaled_gelu(engine: Engine, instruction_set: str, channels: int) -> None:
    generator = np.random.default_rng(channels)
    x = generator.standard_normal((50, channels)).astype(np.float32)
    scale, shift = generator.standard_normal((2, channels)).astype(np.float32)
    exact = exact_gelu(x.astype(np.float64) * scale + shift)
    y = activated(engine, "scaled_gelu", instruction_set, x, scale, shift)
    np.testing.assert_allclose(y, exact, atol=1e-6)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_snake(engine: Engine, instruction_set: str, channels: int) -> None:
    generator = np.random.default_rng(channels)
    x = (generator.standard_normal((50, channels)) * 20).astype(np.float32)
    frequency, magnitude = generator.uniform(0.1, 30, (2, channels)).astype(np.float32)
    y = activated(engine, "snake", instruction_set, x, frequency, magnitude)
    # The product x * frequency is rounded to float32 before the sine, as it is in PyTorch.
    expected = x + np.sin((x * frequency).astype(np.float64)) ** 2 * magnitude
    np.testing.assert_allclose(y, expected, atol=8e-6)


@pytest.mark.parametrize("name", ["identity", "elu", "snake"])
@pytest.mark.parametrize("threads", [1, 2])
def test_surroundings(name: str, threads: int) -> None:
    """Zeros or a context before the result, zeros after it, and the result itself bit for bit."""
    engine = Engine("cpu", threads)
    generator = np.random.default_rng(1)
    x, context = generator.standard_normal((37, 21)), generator.standard_normal((5, 21))
    x, context = x.astype(np.float32), context.astype(np.float32)
    vectors = list(generator.uniform(0.5, 2, (2, 21)).astype(np.float32)) if name == "snake" else []
    bare = activated(engine, name, "best", x, *vectors)
    graph = engine.graph()
    tensor, before = graph.input("x", (21, 37)), graph.input("context", (21, 5))
    tensors = [graph.input(f"v{index}", (21,)) for index in range(len(vectors))]
    inputs = {f"v{index}": vector for index, vector in enumerate(vectors)}
    program = graph.program(
        {
            "zeros": tensor.activate(name, tensors, before=3, after=2),
            "context": tensor.activate(name, tensors, after=4, context=before),
        }
    )
    result = program(x=x, context=context, **inputs)
    np.testing.assert_array_equal(result["zeros"], np.pad(bare, ((3, 2), (0, 0))))
    np.testing.assert_array_equal(
        result["context"], np.concatenate([context, bare, np.zeros((4, 21), np.float32)])
    )


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_layer_norm(engine: Engine, instruction_set: str, channels: int, offset: float) -> None:
    generator = np.random.default_rng(channels)
    x = (generator.standard_normal((9, channels)) + offset).astype(np.float32)
    weight, bias = generator.standard_normal((2, channels)).astype(np.float32)
    graph = engine.graph()
    names = {"x": x, "weight": weight, "bias": bias}
    tensors = [graph.input(name, array.shape[::-1]) for name, array in names.items()]
    y = tensors[0].affine_layer_norm(tensors[1], tensors[2], 1e-5, instruction_set)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    result = graph.program({"y": y})(**names)["y"].reshape(x.shape)
    np.testing.assert_allclose(result, exact * weight + bias, atol=1e-6 * (1 + offset))


def test_impossible_activations(engine: Engine) -> None:
    graph = engine.graph()
    x, vector = graph.input("x", (4, 10)), graph.input("vector", (4,))
    with pytest.raises(ValueError, match="no activation 'swish'"):
        x.activate("swish")
    with pytest.raises(ValueError, match="snake takes 2 vectors, not 1"):
        x.activate("snake", [vector])
    with pytest.raises(ValueError, match=r"instead of \[4, 1\]"):
        x.activate("snake", [vector, graph.input("short", (3,))])
    with pytest.raises(ValueError, match="a context instead"):
        x.activate("elu", before=2, context=x)
    with pytest.raises(ValueError, match="channels, time"):
        graph.input("deep", (4, 5, 6, 2)).activate("elu")
    with pytest.raises(ValueError, match="epsilon is negative"):
        x.affine_layer_norm(vector, vector, -1.0)
