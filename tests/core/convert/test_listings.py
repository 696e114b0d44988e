"""Full-size models get the keys, types, names, shapes and dtypes that the C++ converters and quantisers give.

The checkpoints here have full-size headers and no values, so nothing large is written or read.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFValueType

from ggtts.core.convert import ModelPlan, plan_folder
from ggtts.core.convert.quantize_policy import tensor_type, variant
from support.gguf_files import Listing
from support.safetensors_files import write_hollow

BASE_TOKENS = 151643
HASH_MERGES = 96
LISTED = {
    "talker": "qwen-talker-0.6b-base",
    "codec": "qwen-tokenizer-12hz",
    "omnivoice": "omnivoice-base",
    "omnivoice_codec": "omnivoice-tokenizer",
}


@pytest.fixture(scope="session", params=LISTED)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def plan(model: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelPlan:
    source, folder = data / "fullsize" / model, tmp_path_factory.mktemp(model)
    for name in ("config.json", "generation_config.json"):
        if (source / name).exists():
            (folder / name).write_bytes((source / name).read_bytes())
    write_hollow(folder / "model.safetensors", json.loads((source / "tensors.json").read_text()))
    if model == "talker":
        write_text_tokenizer(folder, json.loads((source / "added_tokens.json").read_text()))
    if model == "omnivoice":
        write_tokenizer_json(folder, json.loads((source / "added_tokens.json").read_text()))
    return plan_folder(folder)


def write_text_tokenizer(folder: Path, added: dict[str, str]) -> None:
    """Write a vocabulary and merges as many as the public ones, 96 of them beginning with #."""
    merges = [f"# a{i}" if i < HASH_MERGES else f"b a{i}" for i in range(BASE_TOKENS - 256)]
    (folder / "vocab.json").write_text(json.dumps({f"t{i}": i for i in range(BASE_TOKENS)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    decoder = {number: {"content": token} for number, token in added.items()}
    config = {"eos_token": "<|im_end|>", "added_tokens_decoder": decoder}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_tokenizer_json(folder: Path, added: dict[str, str]) -> None:
    """Write the same vocabulary and merges in one file, the merges as pairs."""
    merges = [["b", f"a{i}"] for i in range(BASE_TOKENS - 256)]
    model = {"type": "BPE", "vocab": {f"t{i}": i for i in range(BASE_TOKENS)}, "merges": merges}
    tokens = [{"id": int(number), "content": token} for number, token in added.items()]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens, "model": model}))


def listing(data: Path, model: str, file_type: str) -> Listing:
    return Listing.read(data / "gguf" / f"{LISTED[model]}-{file_type}.txt")


def kind_name(kind: GGUFValueType, element: GGUFValueType | None) -> str:
    return kind.name if element is None else f"{kind.name}/{element.name}"


def test_keys_and_types(plan: ModelPlan, model: str, data: Path) -> None:
    expected = listing(data, model, "F32").keys
    named = {"general.architecture": "STRING", "general.name": "STRING"}
    ours = named | {entry.key: kind_name(entry.kind, entry.element) for entry in plan.metadata}
    assert ours == {key: kind for key, (kind, _) in expected.items()}
    assert list(ours) == list(expected)
    assert (plan.architecture, plan.name) == tuple(expected[key][1] for key in named)


def test_values(plan: ModelPlan, model: str, data: Path) -> None:
    for entry in plan.metadata:
        kind, expected = listing(data, model, "F32").keys[entry.key]
        if entry.key == "tokenizer.ggml.merges" and model == "talker":
            assert len(entry.value) == expected[0] + HASH_MERGES
        elif kind.startswith("ARRAY"):
            count, items = expected
            assert len(entry.value) == count
            assert items is None or entry.value == items
        elif kind == "FLOAT32":
            assert np.float32(entry.value) == np.float32(expected)
        else:
            assert entry.value == expected


def test_names_shapes_and_order(plan: ModelPlan, model: str, data: Path) -> None:
    expected = {name: shape for name, (_, shape) in listing(data, model, "F32").tensors.items()}
    ours = {tensor.name: tensor.shape for tensor in plan.tensors}
    assert ours == expected
    assert list(ours) == list(expected)


@pytest.mark.parametrize("file_type", ["F32", "BF16", "Q8_0"])
def test_types_of_tensors(plan: ModelPlan, model: str, data: Path, file_type: str) -> None:
    target = variant(file_type)
    ours = {tensor.name: tensor_type(tensor.name, tensor.shape, target).name for tensor in plan.tensors}
    assert ours == {name: dtype for name, (dtype, _) in listing(data, model, file_type).tensors.items()}


def test_file_stem(plan: ModelPlan, model: str) -> None:
    assert plan.stem == LISTED[model]
