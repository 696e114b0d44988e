"""The transformer against float64, as a whole sequence and piece by piece with a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from ggtts.core.engine import Engine, WeightScope
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from ggtts.core.nn.kv_cache import KVCache
from ggtts.core.nn.transformer import Transformer
from support import reference_transformer as reference
from support.comparing import deviation
from support.random_weights import transformer_weights
from support.tolerances import HALF_PRECISION_CACHE, LAYER

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]

CONFIG = TransformerConfig(
    layers=3, width=64, ffn_width=96, heads=4, kv_heads=2, head_dim=32, rope_theta=1e4, norm_eps=1e-6
)
TOKENS = 41
WEIGHTS = transformer_weights(CONFIG)
X = np.random.default_rng(5).standard_normal((TOKENS, CONFIG.width)).astype(np.float32)


def run_pieces(
    engine: Engine, model: Transformer, cache: KVCache, x: np.ndarray, sizes: list[int]
) -> np.ndarray:
    """The model over x [tokens, width], so many tokens at a time."""
    results = []
    for piece in np.split(x, np.cumsum(sizes)[:-1]):
        tokens = len(piece)
        cache.reserve(tokens)
        graph = engine.graph()
        view = cache.view(graph, tokens)
        y = model(graph.input("x", (x.shape[1], tokens)), view.positions, view)
        results.append(graph.program({"y": y})(x=piece, **cache.feed(tokens))["y"].reshape(tokens, -1))
        cache.advance(tokens)
    return np.concatenate(results)


@pytest.mark.parametrize("window", [0, 6])
@pytest.mark.parametrize("plain", [False, True])
def test_every_layer_of_a_whole_sequence(engine: Engine, scope_of: ScopeOf, plain: bool, window: int) -> None:
    config = replace(CONFIG, window=window, arithmetic=Arithmetic(plain_attention=plain))
    model = Transformer(scope_of(WEIGHTS), config)
    graph = engine.graph()
    x, positions = graph.input("x", (config.width, TOKENS)), graph.input("positions", (TOKENS,), "i32")
    streams = {f"layer{index}": stream for index, stream in enumerate(model.residuals(x, positions))}
    found = graph.program(streams)(x=X, positions=np.arange(TOKENS, dtype=np.int32))
    for index, wanted in enumerate(reference.transformer(X, WEIGHTS, config)):
        assert deviation(found[f"layer{index}"], wanted) < LAYER


@pytest.mark.parametrize("sizes", [[TOKENS], [1] * TOKENS, [17, 1, 1, 20, 2]])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("window", [0, 6])
@pytest.mark.parametrize("first_room", [1, TOKENS])
def test_a_cache_changes_nothing(
    engine: Engine, scope_of: ScopeOf, sizes: list[int], plain: bool, window: int, first_room: int
) -> None:
    config = replace(CONFIG, window=window, arithmetic=Arithmetic(plain_attention=plain))
    cache = KVCache(engine, config, first_room, "f32")
    found = run_pieces(engine, Transformer(scope_of(WEIGHTS), config), cache, X, sizes)
    assert deviation(found, reference.transformer(X, WEIGHTS, config)[-1]) < LAYER
    assert cache.length == TOKENS


def test_half_precision_keys_and_values(engine: Engine, scope_of: ScopeOf) -> None:
    cache = KVCache(engine, CONFIG, TOKENS, "f16")
    found = run_pieces(engine, Transformer(scope_of(WEIGHTS), CONFIG), cache, X, [30, *[1] * 11])
    wanted = reference.transformer(X, WEIGHTS, CONFIG)[-1]
    assert LAYER < deviation(found, wanted) < HALF_PRECISION_CACHE


def test_clamping_bounds_the_residual_stream(engine: Engine, scope_of: ScopeOf) -> None:
    config = replace(CONFIG, arithmetic=Arithmetic(clamp_float16=True))
    loud = {name: array * 1e6 if "ffn_down" in name else array for name, array in WEIGHTS.items()}
    for settings, bounded in ((CONFIG, False), (config, True)):
        cache = KVCache(engine, settings, TOKENS, "f32")
        found = run_pieces(engine, Transformer(scope_of(loud), settings), cache, X, [TOKENS])
        assert (np.abs(found).max() <= 65504) == bounded
