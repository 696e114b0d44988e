"""Sequences side by side against each of them alone, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine, Tensor
from ggtts.core.nn.config import TransformerConfig
from ggtts.core.nn.feed_forward import SwiGLU
from ggtts.core.nn.joined import JoinedSequences, Part, side_by_side
from ggtts.core.nn.names import QWEN3_NAMES, RenamedScope
from ggtts.core.nn.transformer import Transformer
from support import reference_transformer as reference
from support.comparing import deviation
from support.device import DEVICE
from support.random_weights import transformer_weights, write_weights
from support.tolerances import HALF_PRECISION_LAYER, LAYER, either

CONFIG = TransformerConfig(
    layers=2, width=64, ffn_width=96, heads=4, kv_heads=2, head_dim=32, rope_theta=1e4, norm_eps=1e-6
)
LENGTHS = (7, 1, 4)


def bidirectional(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, places: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """query [tokens, heads, head_dim], keys and values [tokens, kv_heads, head_dim], bias [tokens, tokens]."""
    share = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat(share, 1), values.repeat(share, 1)
    scores = np.einsum("qhd,khd->hqk", query, keys) / np.sqrt(query.shape[-1]) + bias
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), values)
    return mixed.reshape(len(query), -1)


@pytest.fixture(scope="module")
def weights() -> Mapping[str, np.ndarray]:
    return transformer_weights(CONFIG)


@pytest.fixture(scope="module")
def path(weights: Mapping[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_weights(tmp_path_factory.mktemp("joined") / "x.gguf", weights)


def joined(
    engine: Engine, transformer: Transformer, x: np.ndarray, biases: Mapping[int, np.ndarray], fused: bool
) -> np.ndarray:
    """Run sequences of LENGTHS, those with a bias or without the fused attention by matrix products."""
    graph = engine.graph()
    inputs = {"x": x, "positions": np.concatenate([np.arange(length, dtype=np.int32) for length in LENGTHS])}
    parts = []
    for index, length in enumerate(LENGTHS):
        count = bias = None
        if index in biases:
            bias = graph.input(f"bias{index}", (length, length))
            inputs[f"bias{index}"] = biases[index]
        elif fused:
            count = graph.input(f"count{index}", (1,), "i32")
            inputs[f"count{index}"] = np.array([length], np.int32)
        parts.append(Part(length, count, bias))
    tokens = graph.input("x", (CONFIG.width, sum(LENGTHS)))
    positions = graph.input("positions", (sum(LENGTHS),), "i32")
    return graph.program({"y": transformer(tokens, positions, JoinedSequences(parts))})(**inputs)["y"]


@pytest.mark.cpu_only
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("biased", [(), (0,), (0, 2)])
def test_each_sequence_is_alone(
    engine: Engine,
    path: Path,
    weights: Mapping[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    fused: bool,
    biased: tuple[int, ...],
) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((sum(LENGTHS), CONFIG.width)).astype(np.float32)
    biases = {index: random.random((LENGTHS[index],) * 2).astype(np.float32) for index in biased}
    found = joined(engine, Transformer(engine.weights(path).scope(""), CONFIG), x, biases, fused)
    start = 0
    for index, length in enumerate(LENGTHS):
        bias = biases.get(index, np.zeros((length, length)))
        monkeypatch.setattr(
            reference,
            "attention",
            lambda q, k, v, places, window, bias=bias: bidirectional(q, k, v, places, bias),
        )
        expected = reference.transformer(x[start : start + length], weights, CONFIG)[-1]
        assert deviation(found[start : start + length], expected) < LAYER
        start += length


@pytest.fixture(scope="module")
def stock() -> Engine:
    """The device under test with GGML's own operations only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GGTTS_STOCK", "1")
        return Engine(DEVICE, threads=1)


def side_by_side_in_flash(
    engine: Engine, transformer: Transformer, x: np.ndarray, biases: Mapping[int, np.ndarray], together: bool
) -> np.ndarray:
    """Run sequences of LENGTHS by flash attention, all of them in one operation or each in its own."""
    graph = engine.graph()

    def kept(bias: np.ndarray) -> Tensor:
        return graph.kept_mask(bias.astype(np.float16))

    own = [biases.get(index) for index in range(len(LENGTHS))]
    if together:
        parts = [Part(sum(LENGTHS), bias=kept(side_by_side(LENGTHS, own)), flash=True)]
    else:
        parts = [
            Part(length, bias=None if bias is None else kept(bias), flash=True)
            for length, bias in zip(LENGTHS, own, strict=True)
        ]
    tokens = graph.input("x", (x.shape[1], sum(LENGTHS)))
    places = graph.input("positions", (sum(LENGTHS),), "i32")
    program = graph.program({"y": transformer(tokens, places, JoinedSequences(parts))})
    positions = np.concatenate([np.arange(length, dtype=np.int32) for length in LENGTHS])
    return program(x=x, positions=positions)["y"]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("biased", [(), (0, 2)])
def test_flash_attention_and_heads_turned_together(
    stock: Engine, tmp_path: Path, together: bool, biased: tuple[int, ...]
) -> None:
    """What a GPU does for many positions is what matrix products and a softmax do, operation by operation."""
    config = replace(CONFIG, head_dim=64)
    path = write_weights(tmp_path / "x.gguf", transformer_weights(config))
    random = np.random.default_rng(7)
    x = random.standard_normal((sum(LENGTHS), config.width)).astype(np.float32)
    biases = {
        index: random.random((LENGTHS[index],) * 2).astype(np.float16).astype(np.float32) for index in biased
    }
    plain = Transformer(stock.weights(path).scope(""), config)
    expected = joined(stock, plain, x, biases, False)
    many = replace(config, many_positions=True)
    feed_forward = partial(SwiGLU, many_positions=True)
    transformer = Transformer(stock.weights(path).scope(""), many, feed_forward)
    found = side_by_side_in_flash(stock, transformer, x, biases, together)
    assert deviation(found, expected) < either(LAYER, HALF_PRECISION_LAYER)


@pytest.mark.cpu_only
def test_names_of_transformers(
    engine: Engine, tmp_path: Path, weights: Mapping[str, np.ndarray], path: Path
) -> None:
    """The same weights under the names of a Hugging Face checkpoint."""
    renamed = {}
    for name, array in weights.items():
        block, number, stem, *kind = name.split(".")
        found = [QWEN3_NAMES[block], number, QWEN3_NAMES.get(stem, stem), *kind]
        renamed["llm." + ".".join(found)] = array
    other = write_weights(tmp_path / "y.gguf", renamed)
    scope = RenamedScope(engine.weights(other), "llm.", QWEN3_NAMES)
    assert "attn_q.weight" in scope.scope("blk.1.")
    assert "blk.2.attn_q.weight" not in scope
    x = np.random.default_rng(6).standard_normal((sum(LENGTHS), CONFIG.width)).astype(np.float32)
    first = joined(engine, Transformer(engine.weights(path).scope(""), CONFIG), x, {}, True)
    assert (joined(engine, Transformer(scope, CONFIG), x, {}, True) == first).all()
