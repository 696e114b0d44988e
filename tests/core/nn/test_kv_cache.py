"""The key/value cache: growth, limits, copies, constant positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ggtts.core.engine import Engine, Tensor
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from ggtts.core.nn.kv_cache import KVCache

CONFIG = TransformerConfig(
    layers=2, width=8, ffn_width=8, heads=2, kv_heads=2, head_dim=4, rope_theta=1e4, norm_eps=1e-6, window=5
)


def store(
    engine: Engine, cache: KVCache, values: np.ndarray, fixed_start: int | None = None
) -> list[np.ndarray]:
    """Add values [tokens, kv_heads, head_dim], the second layer's doubled; return the visible keys of both layers."""
    tokens = len(values)
    if fixed_start is None:
        cache.reserve(tokens)
    graph = engine.graph()
    view = cache.view(graph, tokens) if fixed_start is None else cache.fixed_view(graph, tokens, fixed_start)
    new = graph.input("new", values.shape[::-1])
    outputs = {"rotated": graph.input("y", (4, 1, tokens)).rope(view.positions, 4, 1e4)}
    for index, factor in enumerate((1.0, 2.0)):
        keys, seen_values = view.layer(index).append(head_major(new * factor), head_major(new * -factor))
        outputs |= {f"keys{index}": keys, f"values{index}": seen_values}
    feed = cache.feed(tokens) if fixed_start is None else {}
    found = graph.program(outputs)(new=values, y=np.ones((tokens, 1, 4), np.float32), **feed)
    cache.advance(tokens)
    assert (found["values1"] == -found["keys1"]).all()
    return [found[f"keys{index}"].transpose(1, 0, 2).astype(np.float32) for index in range(2)]


def head_major(x: Tensor) -> Tensor:
    """[head_dim, kv_heads, tokens] -> [head_dim, tokens, kv_heads]."""
    return x.permute(0, 2, 1, 3)


def numbered(first: int, count: int) -> np.ndarray:
    """Small whole numbers, which float16 holds exactly: [count, kv_heads, head_dim]."""
    positions = np.arange(first, first + count, dtype=np.float32)[:, None, None]
    return positions + np.arange(8, dtype=np.float32).reshape(1, 2, 4) / 8


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_growth_keeps_the_contents(engine: Engine, dtype: str) -> None:
    cache = KVCache(engine, CONFIG, 2, dtype)
    signatures = set()
    for first, count in ((0, 2), (2, 1), (3, 9), (12, 30), (42, 1)):
        keys, doubled = store(engine, cache, numbered(first, count))
        signatures.add(cache.signature(1))
        assert (keys[: first + count] == numbered(0, first + count)).all()
        assert (doubled[: first + count] == 2 * numbered(0, first + count)).all()
    assert cache.length == 43 <= cache.capacity
    assert len(signatures) > 1


@pytest.mark.cpu_only
def test_the_signature_stays_while_the_memory_stays(engine: Engine) -> None:
    cache = KVCache(engine, CONFIG, 4)
    before = cache.signature(1)
    store(engine, cache, numbered(0, 4))
    assert cache.signature(1) == before
    cache.reserve(1)
    assert cache.signature(1) != before


@pytest.mark.cpu_only
def test_the_limit(engine: Engine) -> None:
    cache = KVCache(engine, CONFIG, 2, limit=7)
    assert cache.room == 7
    store(engine, cache, numbered(0, 6))
    assert cache.room == 1
    store(engine, cache, numbered(6, 1))
    assert (cache.room, cache.capacity) == (0, 7)
    with pytest.raises(ValueError, match="exceed the limit of 7"):
        cache.reserve(1)


@pytest.mark.cpu_only
def test_reset_forgets_and_keeps_the_memory(engine: Engine) -> None:
    cache = KVCache(engine, CONFIG, 2)
    store(engine, cache, numbered(0, 20))
    capacity, signature = cache.capacity, cache.signature(1)
    cache.reset()
    keys, _ = store(engine, cache, numbered(50, 3))
    assert (keys[:3] == numbered(50, 3)).all()
    assert (cache.length, cache.capacity, cache.signature(1)) == (3, capacity, signature)


@pytest.mark.parametrize("plain", [False, True])
def test_constant_positions(engine: Engine, plain: bool) -> None:
    config = replace(CONFIG, arithmetic=Arithmetic(plain_attention=plain))
    cache = KVCache(engine, config, 6, "f32")
    store(engine, cache, numbered(0, 2), fixed_start=0)
    store(engine, cache, numbered(2, 1), fixed_start=2)
    keys, _ = store(engine, cache, numbered(3, 1), fixed_start=3)
    assert (keys[:4] == numbered(0, 4)).all()
