"""Sequences that begin in one run: each is what it is alone, and what pads it is never seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from ggtts.core.nn.kv_cache import KVCache
from ggtts.core.nn.slot_cache import SlotCache
from ggtts.core.nn.transformer import Transformer
from support.comparing import deviation
from support.device import DEVICE
from support.random_weights import transformer_weights, write_weights
from support.tolerances import HALF_PRECISION_CACHE

CONFIG = TransformerConfig(
    layers=2, width=32, ffn_width=48, heads=4, kv_heads=2, head_dim=16, rope_theta=1e4, norm_eps=1e-6
)
FLASH = replace(CONFIG, head_dim=64)
BUCKET, LENGTHS, SLOTS = 16, [7, 1, 16, 12], [2, 0, 3, 1]
STEPS = 20


@pytest.fixture(scope="module")
def stock() -> Engine:
    """The device under test; of CPUs one that computes as GPUs do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GGTTS_STOCK", "1")
        return Engine(DEVICE, threads=1)


def inputs(sequence: int, config: TransformerConfig) -> np.ndarray:
    values = np.random.default_rng(sequence).standard_normal((BUCKET + STEPS, config.width))
    return values.astype(np.float32)


def begun_together(
    engine: Engine, model: Transformer, cache: SlotCache, config: TransformerConfig, padding: float
) -> np.ndarray:
    """Begin all sequences in their slots; outputs at all places, [sequences, bucket, width]."""
    x = np.full((len(SLOTS), BUCKET, config.width), padding, np.float32)
    for sequence, length in enumerate(LENGTHS):
        x[sequence, :length] = inputs(sequence, config)[:length]
    graph = engine.graph()
    view = cache.prompts_view(graph, len(SLOTS), BUCKET)
    y = model(graph.input("x", (config.width, x.shape[0] * BUCKET)), view.positions, view)
    program = graph.program({"y": y})
    found = program(x=x.reshape(-1, config.width), **cache.prompt_rows(SLOTS, BUCKET))["y"]
    for slot, length in zip(SLOTS, LENGTHS, strict=True):
        cache.reset(slot)
        cache.advance(slot, length)
    return found.reshape(x.shape)


def stepped(engine: Engine, model: Transformer, cache: SlotCache, config: TransformerConfig) -> np.ndarray:
    """Outputs of further positions, [steps, sequences, width]."""
    graph = engine.graph()
    view = cache.step_view(graph, len(SLOTS))
    y = model(graph.input("x", (config.width, len(SLOTS))), view.positions, view)
    program = graph.program({"y": y})
    found = []
    for step in range(STEPS):
        x = np.zeros((len(SLOTS), config.width), np.float32)
        for sequence, slot in enumerate(SLOTS):
            x[slot] = inputs(sequence, config)[LENGTHS[sequence] + step]
        y_now = program(x=x, **cache.step_feed(len(SLOTS)))["y"].reshape(x.shape)
        found.append(y_now[SLOTS])
        for slot in SLOTS:
            cache.advance(slot, 1)
    return np.stack(found)


def alone(
    engine: Engine, model: Transformer, config: TransformerConfig, dtype: str, sequence: int
) -> np.ndarray:
    """Outputs behind the prompt and each further position, [1 + steps, width]."""
    cache, x, length = KVCache(engine, config, 64, dtype), inputs(sequence, config), LENGTHS[sequence]
    rows = []
    for begin, end in [(0, length), *((length + step, length + step + 1) for step in range(STEPS))]:
        graph = engine.graph()
        view = cache.view(graph, end - begin)
        y = model(graph.input("x", (config.width, end - begin)), view.positions, view)
        found = graph.program({"y": y})(x=x[begin:end], **cache.feed(end - begin))["y"]
        rows.append(found.reshape(-1, config.width)[-1])
        cache.advance(end - begin)
    return np.stack(rows)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        FLASH,
        replace(CONFIG, window=5),
        replace(FLASH, arithmetic=Arithmetic(plain_attention=True)),
    ],
)
def test_each_is_what_it_is_alone(
    stock: Engine, tmp_path: Path, config: TransformerConfig, dtype: str
) -> None:
    path = write_weights(tmp_path / "weights.gguf", transformer_weights(config))
    model = Transformer(stock.weights(path).scope(""), config)
    results = []
    for padding in (0.5, -30.0):
        cache = SlotCache(stock, config, dtype)
        cache.resize(5, 40)
        prompts = begun_together(stock, model, cache, config, padding)
        firsts = np.stack([row[length - 1] for row, length in zip(prompts, LENGTHS, strict=True)])
        results.append(np.concatenate([firsts[None], stepped(stock, model, cache, config)]))
    assert np.array_equal(*results), "what stands behind a prompt is seen"
    for sequence in range(len(LENGTHS)):
        expected = alone(stock, model, config, dtype, sequence)
        assert deviation(results[0][:, sequence], expected) <= HALF_PRECISION_CACHE


@pytest.mark.parametrize("lengths", [(3, 0), (0, 3), (5, 9), (0, 0)])
def test_slots_change_places(stock: Engine, lengths: tuple[int, int]) -> None:
    cache = SlotCache(stock, CONFIG)
    cache.resize(3, 600)
    before = {}
    for name in (f"{part}.{layer}" for layer in range(CONFIG.layers) for part in ("keys", "values")):
        shape = cache.state.read(name).shape
        before[name] = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float16)
        cache.state.write(name, before[name])
    for slot, length in zip((0, 2), lengths, strict=True):
        cache.advance(slot, length)
    cache.exchange(0, 2)
    assert cache.lengths == [lengths[1], 0, lengths[0]]
    for name, values in before.items():
        after = cache.state.read(name)
        assert np.array_equal(after[1], values[1]), "others stay"
        assert np.array_equal(after[0, :, : lengths[1]], values[2, :, : lengths[1]])
        assert np.array_equal(after[2, :, : lengths[0]], values[0, :, : lengths[0]])
