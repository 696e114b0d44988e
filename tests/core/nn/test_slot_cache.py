"""Sequences side by side: each is what it is alone, whatever the others do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine, WeightScope
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from ggtts.core.nn.kv_cache import KVCache
from ggtts.core.nn.slot_cache import SlotCache
from ggtts.core.nn.transformer import Transformer
from support.comparing import same
from support.random_weights import transformer_weights, write_weights

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]

CONFIG = TransformerConfig(
    layers=2, width=32, ffn_width=48, heads=4, kv_heads=2, head_dim=16, rope_theta=1e4, norm_eps=1e-6
)
PLAIN = replace(CONFIG, arithmetic=Arithmetic(plain_attention=True))
WEIGHTS = transformer_weights(CONFIG)
LONGEST = 40


def inputs(sequence: int) -> np.ndarray:
    """The inputs of a sequence, [positions, width]."""
    values = np.random.default_rng(sequence).standard_normal((LONGEST, CONFIG.width))
    return values.astype(np.float32)


class Alone:
    """Sequences with a cache each."""

    def __init__(self, engine: Engine, model: Transformer, config: TransformerConfig, dtype: str) -> None:
        self._engine, self._model, self._config, self._dtype = engine, model, config, dtype
        self._known: dict[tuple[int, int], np.ndarray] = {}

    def outputs(self, sequence: int, prompt: int) -> np.ndarray:
        """What comes out behind the prompt and each further position, [positions, width]."""
        if (sequence, prompt) not in self._known:
            cache = KVCache(self._engine, self._config, LONGEST, self._dtype)
            x, rows = inputs(sequence), []
            for begin, end in [(0, prompt), *((at, at + 1) for at in range(prompt, LONGEST))]:
                graph = self._engine.graph()
                view = cache.view(graph, end - begin)
                y = self._model(graph.input("x", (CONFIG.width, end - begin)), view.positions, view)
                found = graph.program({"y": y})(x=x[begin:end], **cache.feed(end - begin))["y"]
                rows.append(found.reshape(-1, CONFIG.width)[-1])
                cache.advance(end - begin)
            self._known[sequence, prompt] = np.stack(rows)
        return self._known[sequence, prompt]


class Together:
    """Sequences in the slots of one cache."""

    def __init__(self, engine: Engine, model: Transformer, cache: SlotCache) -> None:
        self._engine, self._model, self.cache = engine, model, cache

    def begin(self, slot: int, x: np.ndarray) -> np.ndarray:
        """Begin a sequence; return its last output, [width]."""
        tokens = len(x)
        self.cache.reset(slot)
        self.cache.reserve(slot, tokens)
        graph = self._engine.graph()
        view = self.cache.view(graph, slot, tokens)
        y = self._model(graph.input("x", (CONFIG.width, tokens)), view.positions, view)
        found = graph.program({"y": y})(x=x, **self.cache.feed(slot, tokens))["y"]
        self.cache.advance(slot, tokens)
        return found.reshape(-1, CONFIG.width)[-1]

    def step(self, x: np.ndarray) -> np.ndarray:
        """Add a position to each of the first slots; outputs [slots, width]."""
        slots = len(x)
        for slot in range(slots):
            self.cache.reserve(slot, 1)
        graph = self._engine.graph()
        view = self.cache.step_view(graph, slots)
        y = self._model(graph.input("x", (CONFIG.width, slots)), view.positions, view)
        found = graph.program({"y": y})(x=x, **self.cache.step_feed(slots))["y"]
        for slot in range(slots):
            self.cache.advance(slot, 1)
        return found.reshape(slots, CONFIG.width)


@pytest.fixture(scope="module")
def weights(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> WeightScope:
    path = write_weights(tmp_path_factory.mktemp("slots") / "weights.gguf", WEIGHTS)
    return engine.weights(path).scope("")


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, window=5), PLAIN])
def test_slots_of_different_lengths(
    engine: Engine, weights: WeightScope, config: TransformerConfig, dtype: str
) -> None:
    model = Transformer(weights, config)
    alone, cache = Alone(engine, model, config, dtype), SlotCache(engine, config, dtype)
    together = Together(engine, model, cache)
    cache.resize(3, 8)
    prompts = [7, 1, 4]
    for slot, prompt in enumerate(prompts):
        assert same(together.begin(slot, inputs(slot)[:prompt]), alone.outputs(slot, prompt)[0])
    for step in range(1, 20):  # beyond the positions there are at first
        x = np.stack([inputs(slot)[prompt + step - 1] for slot, prompt in enumerate(prompts)])
        found = together.step(x)
        for slot, prompt in enumerate(prompts):
            assert same(found[slot], alone.outputs(slot, prompt)[step])
    assert cache.lengths == [26, 20, 23]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_whatever_the_others_do(engine: Engine, weights: WeightScope, data: st.DataObject) -> None:
    model = Transformer(weights, CONFIG)
    alone, cache = Alone(engine, model, CONFIG, "f16"), SlotCache(engine, CONFIG)
    together = Together(engine, model, cache)
    cache.resize(data.draw(st.integers(1, 2)), 4)
    prompts: list[int | None] = [None] * cache.slots  # of the sequence in each slot
    sequences = list(range(cache.slots))
    for number in range(data.draw(st.integers(4, 14))):
        act = data.draw(st.sampled_from(["begin", "step", "step", "exchange", "more", "forget"]))
        slot = data.draw(st.integers(0, cache.slots - 1))
        ready = next((at for at, prompt in enumerate(prompts) if prompt is None), cache.slots)
        if act == "begin":
            prompts[slot], sequences[slot] = data.draw(st.integers(1, 9)), number
            first = together.begin(slot, inputs(number)[: prompts[slot]])
            assert same(first, alone.outputs(number, prompts[slot])[0])
        elif act == "step" and ready:
            lengths = cache.lengths[:ready]
            x = np.stack([inputs(sequences[at])[lengths[at]] for at in range(ready)])
            for at, row in enumerate(together.step(x)):
                prompt = prompts[at]
                assert prompt is not None
                assert same(row, alone.outputs(sequences[at], prompt)[lengths[at] + 1 - prompt])
        elif act == "exchange":
            other = data.draw(st.integers(0, cache.slots - 1))
            if other != slot:
                cache.exchange(slot, other)
                for values in (prompts, sequences):
                    values[slot], values[other] = values[other], values[slot]
        elif act == "more":
            cache.resize(min(cache.slots + 1, 5), cache.capacity + 3)
            prompts += [None] * (cache.slots - len(prompts))
            sequences += [0] * (cache.slots - len(sequences))
        elif act == "forget":
            cache.reset(slot)
            prompts[slot] = None


@pytest.mark.cpu_only
def test_the_limit_and_growth(engine: Engine) -> None:
    cache = SlotCache(engine, CONFIG, limit=20)
    assert (cache.slots, cache.capacity) == (0, 0)
    cache.resize(2, 6)
    before = cache.signature(2)
    cache.reserve(0, 6)
    cache.advance(0, 6)
    assert (cache.signature(2), cache.room(0), cache.room(1)) == (before, 14, 20)
    cache.reserve(0, 7)
    assert cache.capacity == 13
    assert cache.signature(2) != before
    cache.reserve(0, 14)
    cache.advance(0, 14)
    assert (cache.capacity, cache.room(0)) == (20, 0)
    with pytest.raises(ValueError, match="20 \\+ 1 positions exceed the limit of 20"):
        cache.reserve(0, 1)
    cache.reset(0)
    assert cache.room(0) == 20
    cache.clear()
    assert (cache.slots, cache.capacity) == (0, 0)


def test_masked_caches_are_read_in_strides(engine: Engine) -> None:
    cache = SlotCache(engine, PLAIN, limit=1000)
    cache.resize(2, 300)
    assert cache.capacity == 512
    assert cache.signature(2)[1:] == (2, 256)
    cache.advance(1, 256)
    assert cache.signature(2)[1:] == (2, 512)
    assert cache.signature(1)[1:] == (1, 256)
