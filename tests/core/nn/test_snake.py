"""The snake activation against its formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ggtts.core.engine import Engine, WeightScope
from ggtts.core.nn.snake import Snake, SnakeBeta
from support.comparing import deviation
from support.tolerances import LAYER


def test_snake(engine: Engine, scope_of: Callable[[Mapping[str, np.ndarray]], WeightScope]) -> None:
    random = np.random.default_rng(4)
    alpha = random.uniform(-2, 2, (1, 12, 1)).astype(np.float32)
    x = (3 * random.standard_normal((7, 12))).astype(np.float32)
    snake = Snake(scope_of({"alpha": alpha}))
    graph = engine.graph()
    tensor = graph.input("x", (12, 7))
    result = graph.program({"fused": snake(tensor), "by_steps": snake.by_steps(tensor)})(x=x)
    frequency = alpha.reshape(-1).astype(np.float64)
    exact = x + np.sin(x * frequency) ** 2 / (frequency + 1e-9)
    assert deviation(result["fused"], exact) < LAYER
    assert deviation(result["by_steps"], exact) < LAYER


def test_snake_beta(engine: Engine, scope_of: Callable[[Mapping[str, np.ndarray]], WeightScope]) -> None:
    random = np.random.default_rng(5)
    alpha, beta = (0.5 * random.standard_normal((2, 12))).astype(np.float32)
    x = (3 * random.standard_normal((7, 12))).astype(np.float32)
    snake = SnakeBeta(scope_of({"alpha": alpha, "beta": beta}))
    graph = engine.graph()
    tensor = graph.input("x", (12, 7))
    result = graph.program({"fused": snake(tensor), "by_steps": snake.by_steps(tensor)})(x=x)
    exact = x + np.sin(x.astype(np.float64) * np.exp(alpha)) ** 2 / (np.exp(beta.astype(np.float64)) + 1e-9)
    assert deviation(result["fused"], exact) < LAYER
    assert deviation(result["by_steps"], exact) < LAYER
