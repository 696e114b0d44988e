"""Norms, linear layers and feed-forward parts against their formulas in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ggtts.core.engine import Engine, Tensor, WeightScope
from ggtts.core.nn.feed_forward import GeluMlp, SwiGLU
from ggtts.core.nn.linear import Linear, LinearGroup
from ggtts.core.nn.norms import LayerNorm, RMSNorm, load_norm
from ggtts.core.nn.precision import ManyPositionsScope
from support import reference_transformer as reference
from support.comparing import deviation
from support.tolerances import LAYER

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]

WIDTH, HIDDEN, TOKENS, EPS = 48, 80, 5, 1e-5
_random = np.random.default_rng(7)
X = _random.standard_normal((TOKENS, WIDTH)).astype(np.float32)
GAIN, OFFSET = _random.uniform(0.5, 2, (2, WIDTH)).astype(np.float32)
GATE, UP = (_random.standard_normal((2, HIDDEN, WIDTH)) / 7).astype(np.float32)
DOWN = (_random.standard_normal((WIDTH, HIDDEN)) / 9).astype(np.float32)


def run(engine: Engine, layer: Callable[[Tensor], Tensor]) -> np.ndarray:
    """The layer on X."""
    graph = engine.graph()
    return graph.program({"y": layer(graph.input("x", (WIDTH, TOKENS)))})(x=X)["y"]


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def test_rms_norm(engine: Engine, scope_of: ScopeOf) -> None:
    norm = load_norm(scope_of({"norm.weight": GAIN}), "norm", EPS)
    assert isinstance(norm, RMSNorm)
    assert deviation(run(engine, norm), reference.rms_norm(X.astype(float), GAIN, EPS)) < LAYER


def test_a_bias_makes_it_a_layer_norm(engine: Engine, scope_of: ScopeOf) -> None:
    norm = load_norm(scope_of({"norm.weight": GAIN, "norm.bias": OFFSET}), "norm", EPS)
    assert isinstance(norm, LayerNorm)
    x = X.astype(float)
    centred = x - x.mean(-1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS) * GAIN + OFFSET
    assert deviation(run(engine, norm), wanted) < LAYER


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_norm_weights_of_any_type_act_in_float32(engine: Engine, scope_of: ScopeOf, dtype: type) -> None:
    stored = GAIN.astype(dtype)
    norm = load_norm(scope_of({"norm.weight": stored}), "norm", EPS)
    assert (
        deviation(run(engine, norm), reference.rms_norm(X.astype(float), stored.astype(float), EPS)) < LAYER
    )


def test_linear_with_and_without_bias(engine: Engine, scope_of: ScopeOf) -> None:
    bias = np.arange(HIDDEN, dtype=np.float32)
    scope = scope_of({"with.weight": UP, "with.bias": bias, "without.weight": UP})
    product = X.astype(float) @ UP.T
    assert deviation(run(engine, Linear(scope, "with")), product + bias) < LAYER
    assert deviation(run(engine, Linear(scope, "without")), product) < LAYER


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_linear_of_many_positions(engine: Engine, scope_of: ScopeOf, dtype: type) -> None:
    """Float matrices stay in the file, by themselves and in groups, and do not round the activations."""
    bias, weight = np.arange(HIDDEN, dtype=np.float32), UP.astype(dtype)
    scope = ManyPositionsScope.of(
        scope_of({"a.with.weight": weight, "a.with.bias": bias, "a.without.weight": weight})
    ).scope("a.")
    assert scope.is_convolved("with.weight")
    product = X.astype(float) @ weight.astype(float).T
    assert deviation(run(engine, Linear(scope, "with")), product + bias) < LAYER
    group = LinearGroup(scope, ["with", "without"])
    graph = engine.graph()
    first, second = group(graph.input("x", (WIDTH, TOKENS)))
    result = graph.program({"first": first, "second": second})(x=X)
    assert deviation(result["first"], product + bias) < LAYER
    assert deviation(result["second"], product) < LAYER


def test_swiglu(engine: Engine, scope_of: ScopeOf) -> None:
    scope = scope_of({"ffn_gate.weight": GATE, "ffn_up.weight": UP, "ffn_down.weight": DOWN})
    x = X.astype(float)
    wanted = (reference.silu(x @ GATE.T) * (x @ UP.T)) @ DOWN.T
    assert deviation(run(engine, SwiGLU(scope)), wanted) < LAYER


def test_gelu_mlp_is_exact(engine: Engine, scope_of: ScopeOf) -> None:
    scope = scope_of({"ffn_up.weight": UP, "ffn_down.weight": DOWN})
    wanted = gelu(X.astype(float) @ UP.T) @ DOWN.T
    assert deviation(run(engine, GeluMlp(scope)), wanted) < LAYER
