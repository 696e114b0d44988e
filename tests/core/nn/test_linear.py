"""Products of one input, joined where a file keeps them in one type."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from ggtts.core.engine import Engine, WeightScope
from ggtts.core.nn.linear import Linear, LinearGroup
from ggtts.core.nn.precision import FoldedScope
from support.comparing import deviation
from support.tolerances import LAYER

Q8_0, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
WIDTH = 64
ROWS = {"first": 32, "second": 17, "third": 48, "apart": 5}
"""Outputs of each; only the last is no Q8_0 matrix. The second has a bias."""


@pytest.fixture
def scope(engine: Engine, tmp_path: Path) -> WeightScope:
    random = np.random.default_rng(3)
    writer = gguf.GGUFWriter(tmp_path / "weights.gguf", "test")
    for name, rows in ROWS.items():
        values = random.standard_normal((rows, WIDTH)).astype(np.float32)
        kind = F32 if name == "apart" else Q8_0
        writer.add_tensor(f"{name}.weight", gguf.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("second.bias", random.standard_normal(ROWS["second"]).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return engine.weights(tmp_path / "weights.gguf").scope("")


@pytest.mark.parametrize("tokens", [1, 6])
@pytest.mark.parametrize("order", [["first", "second", "third", "apart"], ["apart", "third", "second"]])
def test_a_group_is_its_parts(engine: Engine, scope: WeightScope, order: list[str], tokens: int) -> None:
    x = np.random.default_rng(4).standard_normal((tokens, WIDTH)).astype(np.float32)
    graph = engine.graph()
    inputs = graph.input("x", (WIDTH, tokens))
    together = dict(zip(order, LinearGroup(scope, order)(inputs), strict=True))
    alone = {f"{name} alone": Linear(scope, name)(inputs) for name in order}
    found = graph.program({**together, **alone})(x=x)
    for name in order:
        assert found[name].size == tokens * ROWS[name]
        np.testing.assert_allclose(found[name], found[f"{name} alone"], rtol=1e-5, atol=1e-5)


def folded_scope(engine: Engine, path: Path, *names: str) -> FoldedScope:
    """A file with an output matrix in Q8_0, and float32 vectors of these names."""
    random = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "test")
    matrix = random.standard_normal((6, WIDTH)).astype(np.float32)
    writer.add_tensor("attn_output.weight", gguf.quantize(matrix, Q8_0), raw_dtype=Q8_0)
    for name in names:
        writer.add_tensor(name, random.standard_normal(6).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return FoldedScope(engine.weights(path), "")


def test_a_layer_scale_is_part_of_the_matrix(engine: Engine, tmp_path: Path) -> None:
    scope = folded_scope(engine, tmp_path / "weights.gguf", "attn_scale")
    assert "attn_scale" not in scope
    assert "attn_output.weight" in scope
    x = np.random.default_rng(6).standard_normal((5, WIDTH)).astype(np.float32)
    graph = engine.graph()
    y = graph.program({"y": Linear(scope, "attn_output")(graph.input("x", (WIDTH, 5)))})(x=x)["y"]
    expected = x.astype(np.float64) @ scope.array("attn_output.weight").T * scope.array("attn_scale")
    assert deviation(y, expected) < LAYER


def test_a_bias_before_a_layer_scale_is_refused(engine: Engine, tmp_path: Path) -> None:
    scope = folded_scope(engine, tmp_path / "weights.gguf", "attn_scale", "attn_output.bias")
    with pytest.raises(ValueError, match="bias"):
        Linear(scope, "attn_output")


@pytest.mark.parametrize("join", [True, False])
@pytest.mark.parametrize("others", [["second", "apart"], ["apart"]])
def test_several_in_place_of_one(engine: Engine, scope: WeightScope, others: list[str], join: bool) -> None:
    """Their outputs are one tensor, whether or not what follows is in the same product."""
    x = np.random.default_rng(5).standard_normal((3, WIDTH)).astype(np.float32)
    graph = engine.graph()
    inputs = graph.input("x", (WIDTH, 3))
    stacked, *rest = LinearGroup(scope, [("first", "third"), *others], join=join)(inputs)
    assert stacked.shape[:2] == (ROWS["first"] + ROWS["third"], 3)
    alone = {name: Linear(scope, name)(inputs) for name in ROWS}
    beside = {f"{name} beside": part for name, part in zip(others, rest, strict=True)}
    found = graph.program({"stacked": stacked, **alone, **beside})(x=x)
    expected = np.concatenate([found["first"].reshape(3, -1), found["third"].reshape(3, -1)], 1)
    np.testing.assert_allclose(found["stacked"], expected, rtol=1e-5, atol=1e-5)
    for name in others:
        np.testing.assert_allclose(found[f"{name} beside"], found[name], rtol=1e-5, atol=1e-5)
