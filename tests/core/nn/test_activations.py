"""Activations as the CPU computes them against the operations of other devices."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.nn.activations import Activation, Elu, Gelu, Identity, scaled_gelu
from support.comparing import deviation
from support.tolerances import LAYER

X = np.random.default_rng(2).standard_normal((9, 12)).astype(np.float32)


@pytest.mark.parametrize("activation", [Identity(), Elu(), Gelu()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(("before", "after", "has_context"), [(0, 0, False), (3, 2, False), (0, 4, True)])
def test_steps_agree_with_the_fused_operation(
    engine: Engine, activation: Activation, before: int, after: int, has_context: bool
) -> None:
    graph = engine.graph()
    x = graph.input("x", (12, 9))
    context = graph.input("context", (12, 3)) if has_context else None
    outputs = {
        "fused": activation(x, before=before, after=after, context=context),
        "by_steps": activation.surrounded_by_steps(x, before, after, context),
    }
    result = graph.program(outputs)(x=X, **({"context": X[:3]} if has_context else {}))
    assert result["fused"].shape == (before + 9 + after + 3 * has_context, 12)
    assert deviation(result["fused"], result["by_steps"]) < LAYER


def test_scaled_gelu(engine: Engine) -> None:
    graph = engine.graph()
    x, scale, shift = graph.input("x", (12, 9)), graph.input("scale", (12,)), graph.input("shift", (12,))
    outputs = {"fused": scaled_gelu(x, scale, shift), "by_steps": (x * scale + shift).gelu()}
    result = graph.program(outputs)(x=X, scale=X[0], shift=X[1])
    assert deviation(result["fused"], result["by_steps"]) < LAYER
