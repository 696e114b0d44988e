"""Masks of flash attention, which GGML's kernels for GPUs read in tiles."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from support.device import DEVICE
from support.reference_attention import reference_attention


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(DEVICE, threads=2)


@pytest.mark.parametrize(("queries", "slots"), [(1, 3), (5, 2), (256, 2), (1030, 1)])
def test_flash_attention_with_a_mask(engine: Engine, queries: int, slots: int) -> None:
    """From 1024 queries on, and with several slots, GGML's kernels for GPUs look which keys nobody sees."""
    keys = 256 * -(-queries // 256)
    random = np.random.default_rng(queries)
    q = random.standard_normal((slots * queries, 2, 64), np.float32)
    k, v = random.standard_normal((2, slots, 1, keys, 64), np.float32).astype(np.float16)
    seen = [np.arange(keys) <= np.arange(queries)[:, None] + 20 * slot for slot in range(slots)]
    mask = np.where(np.stack(seen), 0, -np.inf).astype(np.float16)
    state = engine.state({name: ((64, keys, 1, slots), "f16") for name in ("k", "v")})
    state.write("k", k)
    state.write("v", v)
    graph = engine.graph()
    x, given = graph.input("q", q.shape[::-1]), graph.input("mask", (keys, queries, 1, slots), "f16")
    masks = {"given": given, "kept": graph.kept_mask(mask)}
    program = graph.program(
        {name: x.flash_attention(state["k"], state["v"], mask, 0.125) for name, mask in masks.items()}
    )
    found = program(q=q, mask=mask[:, None])
    expected = [
        reference_attention(q[slot * queries :][:queries], k[slot], v[slot], seen[slot], 0.125)
        for slot in range(slots)
    ]
    for name in masks:
        attended = found[name].reshape(slots, queries, -1)
        np.testing.assert_allclose(attended, np.stack(expected), rtol=0, atol=5e-3)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((32, 5), r"without 63 rows behind it"),
        ((32, 5, 1, 2), r"without 63 rows behind it"),
        ((32, 4), "mask"),
        ((16, 5), "mask"),
    ],
)
def test_masks_that_gpus_would_read_beyond(engine: Engine, shape: tuple[int, ...], told: str) -> None:
    """They take queries in tiles and slots one by one: a mask has memory behind it, and slots have masks of their
    own."""
    slots = shape[3] if len(shape) == 4 else 1
    graph, memory = engine.graph(), engine.state({"mask": (shape, "f16")})
    q = graph.input("q", (64, 2, 5 * slots))
    k = graph.input("k", (64, 32, 1, slots))
    with pytest.raises(ValueError, match=told):
        q.flash_attention(k, k, graph.use(memory["mask"]), 1.0)


def test_rows_of_a_mask_lie_next_to_each_other(engine: Engine) -> None:
    """GGML would give up, and the process end."""
    graph = engine.graph()
    q, k = graph.input("q", (64, 2, 5)), graph.input("k", (64, 32))
    wide, turned = graph.input("wide", (64, 5), "f16"), graph.input("turned", (5, 32), "f16")
    for mask in (wide.slice(0, 0, 32), turned.transpose()):
        with pytest.raises(ValueError, match="mask"):
            q.flash_attention(k, k, mask, 1.0)


def test_one_mask_does_not_serve_all_slots(engine: Engine) -> None:
    graph = engine.graph()
    q, k = graph.input("q", (64, 2, 10)), graph.input("k", (64, 32, 1, 2))
    with pytest.raises(ValueError, match="mask"):
        q.flash_attention(k, k, graph.kept_mask(np.zeros((5, 32), np.float16)), 1.0)
    one_of_two = graph.input("mask", (32, 5, 1, 2), "f16").slice(3, 0, 1)  # with as much behind it as is read
    with pytest.raises(ValueError, match="mask"):
        q.flash_attention(k, k, one_of_two, 1.0)
    masks = graph.kept_mask(np.zeros((2, 5, 32), np.float16))
    assert masks.shape == (32, 5, 1, 2)
    assert q.flash_attention(k, k, masks, 1.0).shape[:2] == (128, 10)
