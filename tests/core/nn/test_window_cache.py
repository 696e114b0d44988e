"""Windows of endless streams side by side: each stream is what a transformer makes of the whole sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine, Graph, WeightScope
from ggtts.core.engine.engine import STOCK_VARIABLE
from ggtts.core.nn.config import Arithmetic, TransformerConfig
from ggtts.core.nn.transformer import Transformer
from ggtts.core.nn.window_cache import WindowCache
from support.comparing import deviation
from support.device import DEVICE
from support.random_weights import transformer_weights, write_weights
from support.tolerances import HALF_PRECISION_LAYER, LAYER

ScopeOf = Callable[[Mapping[str, np.ndarray]], WeightScope]

CONFIG = TransformerConfig(
    layers=2,
    width=32,
    ffn_width=48,
    heads=4,
    kv_heads=2,
    head_dim=16,
    rope_theta=1e4,
    norm_eps=1e-6,
    window=9,
)
PLAIN = replace(CONFIG, arithmetic=Arithmetic(plain_attention=True))
FLASH = replace(CONFIG, head_dim=64)
LONGEST, LANES, PIECE = 90, 4, 5


def inputs(sequence: int) -> np.ndarray:
    """The inputs of a sequence, [positions, width]."""
    return np.random.default_rng(sequence).standard_normal((LONGEST, CONFIG.width)).astype(np.float32)


class Streams:
    """Streams in lanes of one cache, beside what is expected of them."""

    def __init__(self, engine: Engine, model: Transformer, config: TransformerConfig) -> None:
        self._engine, self._model = engine, model
        self.cache = WindowCache(engine, config, PIECE, LANES)
        self.done = [0] * LANES

    def graph(self) -> Graph:
        """An empty graph."""
        return self._engine.graph()

    def whole(self, sequence: int) -> np.ndarray:
        """What the transformer makes of all positions at once."""
        graph = self._engine.graph()
        positions = graph.input("positions", (LONGEST,), "i32")
        y = self._model(graph.input("x", (CONFIG.width, LONGEST)), positions)
        places = np.arange(LONGEST, dtype=np.int32)
        return graph.program({"y": y})(x=inputs(sequence), positions=places)["y"]

    def run(self, lanes: list[int], tokens: int, *, chosen: bool) -> np.ndarray:
        """The next positions of some lanes, [lanes, tokens, width]."""
        graph = self._engine.graph()
        ids = graph.input("lanes", (len(lanes),), "i32") if chosen else None
        view = self.cache.view(graph, len(lanes), tokens, ids)
        x = graph.input("x", (CONFIG.width, len(lanes) * tokens))
        program = graph.program({"y": self._model(x, view.positions, view)})
        feed = self.cache.feed(lanes, tokens, chosen=chosen) | (
            {"lanes": np.array(lanes, np.int32)} if chosen else {}
        )
        rows = np.concatenate([inputs(lane)[self.done[lane] :][:tokens] for lane in lanes])
        y = program(x=rows, **feed)["y"]
        self.cache.advance(lanes, tokens)
        for lane in lanes:
            self.done[lane] += tokens
        return y.reshape(len(lanes), tokens, CONFIG.width)


@pytest.fixture(params=["as the device does", "by products"])
def config(request: pytest.FixtureRequest) -> TransformerConfig:
    return PLAIN if request.param == "by products" else CONFIG


@pytest.fixture
def model(engine: Engine, config: TransformerConfig, scope_of: ScopeOf) -> Transformer:
    return Transformer(scope_of(transformer_weights(CONFIG)), config)


def check(streams: Streams, lanes: list[int], tokens: int, *, chosen: bool, tolerance: float = LAYER) -> None:
    begins = [streams.done[lane] for lane in lanes]
    pieces = streams.run(lanes, tokens, chosen=chosen)
    for lane, begin, piece in zip(lanes, begins, pieces, strict=True):
        assert deviation(piece, streams.whole(lane)[begin : begin + tokens]) < tolerance


def test_a_stream_of_any_length(engine: Engine, model: Transformer, config: TransformerConfig) -> None:
    """Longer than the places that a lane has, whatever they are."""
    streams = Streams(engine, model, config)
    while streams.done[0] + PIECE <= LONGEST:
        check(streams, [0], PIECE, chosen=False)


def test_lanes_in_any_order(engine: Engine, model: Transformer, config: TransformerConfig) -> None:
    streams = Streams(engine, model, config)
    for lanes, tokens in [([2, 0], 3), ([3], 5), ([0, 2, 3], 4), ([1, 3], 1), ([3, 2, 1, 0], 2)]:
        check(streams, lanes, tokens, chosen=True)
    check(streams, [0, 1], 2, chosen=False)


@settings(max_examples=10, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.sets(st.integers(0, LANES - 1), min_size=1), st.integers(1, PIECE)),
        min_size=6,
        max_size=14,
    )
)
@pytest.mark.parametrize("plain", [False, True])
def test_whoever_takes_part(
    engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    plain: bool,
    runs: list[tuple[set[int], int]],
) -> None:
    path = tmp_path_factory.mktemp("window") / "weights.gguf"
    weights = engine.weights(write_weights(path, transformer_weights(CONFIG)))
    config = PLAIN if plain else CONFIG
    streams = Streams(engine, Transformer(weights.scope(""), config), config)
    for lanes, tokens in runs:
        check(streams, sorted(lanes), tokens, chosen=True)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Streams]:
    """Streams as a GPU has them, whose rings flash attention reads."""
    if DEVICE == "cpu":
        monkeypatch.setenv(STOCK_VARIABLE, "1")
    engine = Engine(DEVICE, threads=1)
    weights = engine.weights(write_weights(tmp_path / "flash.gguf", transformer_weights(FLASH)))
    model = Transformer(weights.scope(""), FLASH)
    return lambda: Streams(engine, model, FLASH)


def test_flash_attention_of_a_stream_of_any_length(flash: Callable[[], Streams]) -> None:
    streams = flash()
    assert streams.cache.flash
    while streams.done[0] + PIECE <= LONGEST:
        check(streams, [0], PIECE, chosen=False, tolerance=HALF_PRECISION_LAYER)


def test_flash_attention_of_lanes_in_any_order(flash: Callable[[], Streams]) -> None:
    streams, others = flash(), flash()
    for lanes, tokens in [([2, 0], 3), ([3], 5), ([0, 2, 3], 4), ([1, 3], 1), ([3, 2, 1, 0], 2), ([2], 5)]:
        check(streams, lanes, tokens, chosen=True, tolerance=HALF_PRECISION_LAYER)
    check(streams, [0, 1], 2, chosen=False, tolerance=HALF_PRECISION_LAYER)
    graph = streams.graph()
    others.cache.copy_lane(graph, 2, streams.cache, 2)
    graph.program({})()
    others.done[2] = streams.done[2]
    check(others, [2], 3, chosen=True, tolerance=HALF_PRECISION_LAYER)


def test_a_lane_goes_on_in_another_cache(
    engine: Engine, model: Transformer, config: TransformerConfig
) -> None:
    streams, others = Streams(engine, model, config), Streams(engine, model, config)
    for _ in range(7):
        streams.run([1, 2], 4, chosen=True)
    graph = engine.graph()
    others.cache.copy_lane(graph, 2, streams.cache, 2)
    graph.program({})()
    others.done[2] = streams.done[2]
    check(others, [2], 3, chosen=True)


def test_a_lane_begins_again(engine: Engine, model: Transformer, config: TransformerConfig) -> None:
    streams = Streams(engine, model, config)
    streams.run([0, 1], 5, chosen=False)
    streams.cache.reset(1)
    streams.done[1] = 0
    check(streams, [0, 1], 4, chosen=False)


def test_without_a_window(engine: Engine) -> None:
    with pytest.raises(ValueError, match="window"):
        WindowCache(engine, replace(CONFIG, window=0), 1)
