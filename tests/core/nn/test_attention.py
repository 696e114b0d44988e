"""Every attention operation against softmax(q k / sqrt(d)) v in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.nn.attention import (
    KEYS_STRIDE,
    Sight,
    attend,
    attend_to_all,
    key_count_arrays,
    key_count_input,
    mask_values,
)
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from support import reference_transformer as reference
from support.comparing import deviation
from support.tolerances import HALF_PRECISION_LAYER, LAYER

CONFIG = TransformerConfig(
    layers=1, width=64, ffn_width=64, heads=6, kv_heads=2, head_dim=64, rope_theta=1e4, norm_eps=1e-6
)
PLAIN = replace(CONFIG, arithmetic=Arithmetic(plain_attention=True))


def random_case(
    keys: int, dtype: type, seed: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Query [tokens, heads, head_dim], keys and values [keys, kv_heads, head_dim], places [tokens]."""
    random = np.random.default_rng(seed)
    places = np.array([0, 3, keys // 2, keys - 1], np.int32)
    query = random.standard_normal((len(places), CONFIG.heads, CONFIG.head_dim)).astype(np.float32)
    shape = (2, keys, CONFIG.kv_heads, CONFIG.head_dim)
    k, v = random.standard_normal(shape).astype(dtype)
    return query, k, v, places


def run_attention(
    engine: Engine,
    case: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    config: TransformerConfig,
    masked: bool,
) -> np.ndarray:
    """What `attend` makes of a case, by places or by mask."""
    query, keys, values, places = case
    graph = engine.graph()
    q = graph.input("q", query.shape[::-1])
    head_major = (config.head_dim, len(keys), config.kv_heads)
    dtype = "f16" if keys.dtype == np.float16 else "f32"
    k, v = graph.input("k", head_major, dtype), graph.input("v", head_major, dtype)
    inputs = {"q": query, "k": keys.transpose(1, 0, 2).copy(), "v": values.transpose(1, 0, 2).copy()}
    if masked:
        mask = graph.input("mask", (len(keys), len(places)), "f16")
        sight = Sight(mask, mask)
        inputs["mask"] = mask_values(places, len(keys), config.window)
    else:
        sight = Sight(graph.input("places", (len(places),), "i32"), None)
        inputs["places"] = places
    return graph.program({"y": attend(q, k, v, sight, config)})(**inputs)["y"]


@pytest.mark.cpu_only
@pytest.mark.parametrize("window", [0, 1, 7, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("config", "masked"), [(CONFIG, False), (CONFIG, True), (PLAIN, True)])
def test_attention(engine: Engine, config: TransformerConfig, masked: bool, dtype: type, window: int) -> None:
    case = random_case(KEYS_STRIDE, dtype)
    found = run_attention(engine, case, replace(config, window=window), masked)
    query, keys, values, places = case
    wanted = reference.attention(
        query.astype(float), keys.astype(float), values.astype(float), places, window
    )
    # The fused operation computes in float32 whatever it reads; the stock ones round queries or weights.
    tolerance = LAYER if not masked else HALF_PRECISION_LAYER
    assert deviation(found, wanted) < tolerance


def test_plain_attention_in_float32_is_exact(engine: Engine) -> None:
    case = random_case(40, np.float32)
    found = run_attention(engine, case, PLAIN, masked=True)
    query, keys, values, places = case
    wanted = reference.attention(query.astype(float), keys.astype(float), values.astype(float), places, 0)
    assert deviation(found, wanted) < LAYER


def test_mask_values() -> None:
    seen = mask_values(np.array([1, 3]), keys=5, window=2) == 0
    assert seen.tolist() == [[True, True, False, False, False], [False, False, True, True, False]]
    assert (mask_values(np.array([2]), keys=4, window=0) == 0).tolist() == [[True, True, True, False]]


@pytest.mark.parametrize("fused", [True, False])
def test_every_query_sees_every_key(engine: Engine, fused: bool) -> None:
    query, keys, values, _ = random_case(19, np.float32)
    graph = engine.graph()
    q = graph.input("q", query.shape[::-1])
    k, v = (graph.input(name, (CONFIG.head_dim, 19, CONFIG.kv_heads)) for name in ("k", "v"))
    count = key_count_input(graph, "count") if fused else None
    scale = CONFIG.head_dim**-0.5
    program = graph.program({"y": attend_to_all(q, k, v, count, scale)})
    counted = key_count_arrays(engine, "count", 19) if fused else {}
    y = program(q=query, k=keys.transpose(1, 0, 2).copy(), v=values.transpose(1, 0, 2).copy(), **counted)["y"]
    group = CONFIG.heads // CONFIG.kv_heads
    keys, values = (np.repeat(array.astype(np.float64), group, axis=1) for array in (keys, values))
    weights = np.exp(np.einsum("thd,khd->htk", query, keys) * scale)
    expected = np.einsum("htk,khd->thd", weights / weights.sum(-1, keepdims=True), values)
    assert deviation(y, expected.reshape(len(query), -1)) < LAYER
