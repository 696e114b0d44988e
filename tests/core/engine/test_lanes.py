"""Several streams' activations in one operation: each as if it were alone, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import ConvPlan, Engine
from support.random_weights import write_weights

pytestmark = pytest.mark.cpu_only


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def plans(
    engine: Engine, folder: Path, sizes: tuple[int, int, int], stride: int, groups: int
) -> list[ConvPlan]:
    """A plan of every kind with weights (outputs, inputs of a group, taps)."""
    outputs = sizes[0]
    weight, bias = random(*sizes), random(outputs)
    file = engine.weights(write_weights(folder / "weights.gguf", {"weight": weight})).file
    dilation = 1 if stride > 1 else 3
    settings = {"stride": stride, "groups": groups}
    return [
        ConvPlan(np.ascontiguousarray(weight.transpose(2, 0, 1)), bias, dilation, **settings),
        ConvPlan.of_file(file, "weight", sizes, bias, dilation, **settings),
        ConvPlan.of_file(file, "weight", sizes, bias, dilation, packed=True, **settings),
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("lanes", "time"), [(1, 9), (2, 1), (3, 37), (5, 100)])
@pytest.mark.parametrize(
    ("sizes", "stride", "groups"),
    [((96, 96, 7), 1, 1), ((3, 10, 7), 1, 1), ((40, 24, 2), 1, 1), ((70, 16, 8), 4, 1), ((12, 3, 3), 1, 2)],
)
def test_convolution(
    tmp_path: Path, sizes: tuple[int, int, int], stride: int, groups: int, lanes: int, time: int, threads: int
) -> None:
    engine = Engine("cpu", threads)
    outputs, inputs = sizes[0], sizes[1] * groups
    for plan in plans(engine, tmp_path, sizes, stride, groups):
        read = (time - 1) * stride + plan.reach + stride // 2
        x, residual = random(lanes, read, inputs), random(lanes, time, outputs)
        graph = engine.graph()
        added = graph.input("residual", residual.shape[::-1])
        program = graph.program({"y": graph.input("x", x.shape[::-1]).conv1d(plan, added)})
        together = program(x=x, residual=residual)["y"].reshape(residual.shape)
        graph = engine.graph()
        added = graph.input("residual", (outputs, time))
        program = graph.program({"y": graph.input("x", (inputs, read)).conv1d(plan, added)})
        for lane in range(lanes):
            alone = program(x=x[lane], residual=residual[lane])["y"].reshape(time, outputs)
            np.testing.assert_array_equal(together[lane], alone)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["identity", "gelu", "snake"])
def test_surroundings(name: str, threads: int) -> None:
    """Every lane stands behind a context of its own, or between zeros."""
    lanes, time, channels = 3, 11, 21
    x, context = random(lanes, time, channels), random(lanes, 5, channels)
    vectors = {"v0": random(channels), "v1": random(channels) ** 2} if name == "snake" else {}

    def results(shape: tuple[int, ...], **arrays: np.ndarray) -> list[np.ndarray]:
        graph = Engine("cpu", threads).graph()
        tensors = [graph.input(key, (channels,)) for key in vectors]
        tensor = graph.input("x", (channels, time, *shape))
        before = graph.input("context", (channels, 5, *shape))
        program = graph.program(
            {
                "zeros": tensor.activate(name, tensors, before=3, after=2),
                "context": tensor.activate(name, tensors, after=4, context=before),
            }
        )
        return [
            result.reshape(*shape[::-1], -1, channels) for result in program(**arrays, **vectors).values()
        ]

    together = results((lanes,), x=x, context=context)
    for lane in range(lanes):
        for result, alone in zip(together, results((), x=x[lane], context=context[lane]), strict=True):
            np.testing.assert_array_equal(result[lane], alone)


def test_layer_norm() -> None:
    x, weight, bias = random(3, 7, 40), random(40), random(40) + 1
    graph = Engine("cpu", 2).graph()
    vectors = graph.input("weight", (40,)), graph.input("bias", (40,))
    y = graph.input("x", (40, 7, 3)).affine_layer_norm(*vectors, 1e-5)
    flat = graph.input("flat", (40, 21)).affine_layer_norm(*vectors, 1e-5)
    result = graph.program({"y": y, "flat": flat})(x=x, flat=x.reshape(21, 40), weight=weight, bias=bias)
    np.testing.assert_array_equal(result["y"].reshape(21, 40), result["flat"])


def test_lanes_that_do_not_fit() -> None:
    graph = Engine("cpu", 1).graph()
    x = graph.input("x", (5, 10, 3))
    plan = ConvPlan(random(3, 4, 5), None)
    assert x.conv1d(plan).shape == (4, 8, 3, 1)
    with pytest.raises(ValueError, match=r"instead of \[4, 8, 3\]"):
        x.conv1d(plan, graph.input("residual", (4, 8, 2)))
    with pytest.raises(ValueError, match=r"instead of \[5, 2, 3\]"):
        x.activate("identity", context=graph.input("context", (5, 2)))
    with pytest.raises(ValueError, match="channels, time, lanes"):
        graph.input("deep", (5, 10, 3, 2)).conv1d(plan)
