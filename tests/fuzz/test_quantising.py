"""Quantising damaged files, and with damaged importance files: planned and written, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.convert.importance import CHUNKS_KEY, read_importance
from ggtts.core.convert.quantize import QuantizeOptions, plan_quantization, quantize
from support.fuzzing import HOSTILE_SIZES, MUTATIONS, QUICK, Mutation, mutate, only_clear_errors
from support.gguf_editing import edit_gguf
from support.quantize_files import talker_arrays, write_importance, write_model, write_old_importance

COLUMNS = {"a.weight": np.ones(64, np.float32), "b.weight": np.arange(32, dtype=np.float32)}
WRITERS = {"GGUF": write_importance, "older": write_old_importance}


@pytest.mark.parametrize("form", WRITERS)
@QUICK
@given(mutations=MUTATIONS)
def test_damaged_importance(tmp_path: Path, form: str, mutations: list[Mutation]) -> None:
    path = WRITERS[form](tmp_path / "sound", COLUMNS)
    path.write_bytes(mutate(path.read_bytes(), mutations))
    if only_clear_errors(lambda: read_importance(path)):
        found = read_importance(path)
        assert found.columns
        assert all(np.isfinite(values).all() and values.min() >= 0 for values in found.columns.values())
        assert sum(values.nbytes for values in found.columns.values()) <= path.stat().st_size


@pytest.mark.parametrize("size", HOSTILE_SIZES)
def test_older_importance_of_any_size(tmp_path: Path, size: int) -> None:
    """Every number before the first values, with a hostile one in its place."""
    path = write_old_importance(tmp_path / "imatrix", {"name": np.ones(4, np.float32)})
    sound = path.read_bytes()
    for place in (0, 4, 12, 16):  # how many, length of a name, calls, width
        path.write_bytes(sound[:place] + (size % 2**32).to_bytes(4, "little") + sound[place + 4 :])
        only_clear_errors(lambda: read_importance(path))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model.gguf", talker_arrays())


@QUICK
@given(mutations=MUTATIONS, policy=st.sampled_from(["mix", "compat"]))
def test_damaged_models(model: Path, tmp_path: Path, mutations: list[Mutation], policy: str) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(mutate(model.read_bytes(), [(kind, at % 4096, value) for kind, at, value in mutations]))
    options = QuantizeOptions(policy=policy, allow_requantize=True)
    if only_clear_errors(lambda: plan_quantization(path, "q4_k_m", options)):
        only_clear_errors(lambda: quantize(path, tmp_path / "out.gguf", "q4_k_m", options, threads=1))


@pytest.mark.parametrize("policy", ["mix", "compat"])
@pytest.mark.parametrize(
    "value", ["", "text", 0, 2**32 - 1, 0.5, float("nan"), float("inf"), [1], ["a"], b"\xff"], ids=repr
)
def test_counts_of_layers_of_any_kind(model: Path, tmp_path: Path, value: Any, policy: str) -> None:
    keys = ("qwen3-tts.block_count", "qwen3-tts.talker.block_count", "qwen3-tts.code_pred.block_count")
    path = edit_gguf(model, tmp_path / "odd.gguf", dict.fromkeys(keys, value))
    options = QuantizeOptions(policy=policy)
    only_clear_errors(lambda: plan_quantization(path, "q4_k_m", options))


@pytest.mark.parametrize("value", ["", 2**32 - 1, -1.0, float("nan"), [1]], ids=repr)
def test_counts_of_chunks_of_any_kind(model: Path, tmp_path: Path, value: Any) -> None:
    sound = write_importance(tmp_path / "sound", {"talker.blk.0.attn_q.weight": np.ones(256, np.float32)})
    path = edit_gguf(sound, tmp_path / "odd", {CHUNKS_KEY: value})
    if only_clear_errors(lambda: read_importance(path)):
        options = QuantizeOptions(importance=read_importance(path))
        only_clear_errors(lambda: quantize(model, tmp_path / "out.gguf", "q4_k_m", options, threads=1))
