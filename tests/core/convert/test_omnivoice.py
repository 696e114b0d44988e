"""OmniVoice's converted files against the checkpoint they come from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from ggtts.core.convert import convert_folder, output_path, plan_folder, resolve
from ggtts.core.convert.config_reader import read_json
from ggtts.core.convert.omnivoice_base import read_added_tokens, read_merges, read_tokens
from ggtts.core.convert.omnivoice_codec import POSITION_CONV, codebooks
from ggtts.core.convert.safetensors_reader import Checkpoint
from ggtts.core.errors import ModelFileError
from support.data import OMNIVOICE, OMNIVOICE_CODEC
from support.gguf_files import read_metadata
from support.safetensors_files import write_values

Make = Callable[..., Path]


@pytest.mark.parametrize("name", [OMNIVOICE, OMNIVOICE_CODEC])
def test_values_are_bit_exact(tiny_checkpoint: Make, tiny_gguf: Make, name: str) -> None:
    checkpoint = Checkpoint.open(tiny_checkpoint(name))
    tensors = GGUFReader(tiny_gguf(name)).tensors
    stored = [tensor for tensor in tensors if tensor.name in checkpoint]
    assert len(tensors) - len(stored) == (1 if name == OMNIVOICE_CODEC else 0)
    for tensor in stored:
        expected = checkpoint[tensor.name].read()
        np.testing.assert_array_equal(tensor.data.reshape(expected.shape), expected)


def test_what_only_training_needs_is_left_out(tiny_checkpoint: Make, tiny_gguf: Make) -> None:
    checkpoint = Checkpoint.open(tiny_checkpoint(OMNIVOICE_CODEC))
    written = {tensor.name for tensor in GGUFReader(tiny_gguf(OMNIVOICE_CODEC)).tensors}
    dropped = {tensor.name.split(".")[0] for tensor in checkpoint if tensor.name not in written}
    assert dropped == {"decoder_semantic", "fc1", "quantizer", "semantic_model"}


def test_weight_norm_is_folded(tiny_checkpoint: Make, tiny_gguf: Make) -> None:
    """Every tap of the kernel has the stored length, and its direction is unchanged."""
    checkpoint = Checkpoint.open(tiny_checkpoint(OMNIVOICE_CODEC))
    length = checkpoint[f"{POSITION_CONV}.parametrizations.weight.original0"].read()
    direction = checkpoint[f"{POSITION_CONV}.parametrizations.weight.original1"].read()
    last = GGUFReader(tiny_gguf(OMNIVOICE_CODEC)).tensors[-1]
    assert last.name == f"{POSITION_CONV}.weight"
    weight = np.asarray(last.data)
    np.testing.assert_allclose(np.sqrt((weight**2).sum((0, 1))), np.abs(length[0, 0]), rtol=1e-6)
    norm = np.sqrt((direction.astype(np.float64) ** 2).sum((0, 1), keepdims=True))
    np.testing.assert_allclose(weight, direction / norm * length, rtol=1e-6)


def test_older_names_of_a_normalised_weight(tiny_checkpoint: Make, tiny_gguf: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint(OMNIVOICE_CODEC), tmp_path / "codec")
    renamed = {"original0": "weight_g", "original1": "weight_v"}
    tensors = {}
    for stored in Checkpoint.open(folder):
        stem, _, last = stored.name.rpartition(".")
        name = f"{stem.removesuffix('.parametrizations.weight')}.{renamed.get(last, last)}"
        tensors[name] = (stored.dtype, stored.read())
    write_values(folder / "model.safetensors", tensors)
    convert_folder(folder, tmp_path / "x.gguf")
    assert (tmp_path / "x.gguf").read_bytes() == tiny_gguf(OMNIVOICE_CODEC).read_bytes()


def test_text_tokenizer(tiny_checkpoint: Make, tiny_gguf: Make) -> None:
    metadata = read_metadata(tiny_gguf(OMNIVOICE))
    tokens = metadata["tokenizer.ggml.tokens"]
    stored = json.loads((tiny_checkpoint(OMNIVOICE) / "tokenizer.json").read_text(encoding="utf-8"))
    assert metadata["tokenizer.ggml.merges"] == [" ".join(pair) for pair in stored["model"]["merges"]]
    assert {tokens[entry["id"]] for entry in stored["added_tokens"]} == set(tokens[600:])
    assert tokens[metadata["omnivoice.special.text_end"]] == "<|text_end|>"


def test_malformed_tokenizers(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for values, read in (
        ({"added_tokens": [1]}, read_added_tokens),
        ({"model": {"merges": [["a", "b", "c"]]}}, read_merges),
        ({"model": {"merges": [7]}}, read_merges),
        ({"model": {}}, read_merges),
        ({"model": {"vocab": {}}}, lambda section: read_tokens(section, {})),
    ):
        path.write_text(json.dumps(values))
        with pytest.raises(ModelFileError, match="tokenizer"):
            read(read_json(path))


def test_ids_without_a_token(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 2}}}))
    assert read_tokens(read_json(path), {"<x>": 4}) == ["a", "", "b", "", "<x>"]


def test_missing_special_token(tiny_checkpoint: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint(OMNIVOICE), tmp_path / "model")
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(text.replace("<|text_end|>", "<|other|>"), encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"no added token '<\|text_end\|>'"):
        plan_folder(folder)


def test_foreign_tensor_of_the_codec(tiny_checkpoint: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint(OMNIVOICE_CODEC), tmp_path / "codec")
    tensors = {stored.name: (stored.dtype, stored.read()) for stored in Checkpoint.open(folder)}
    write_values(folder / "model.safetensors", {**tensors, "surprise": ("F32", np.zeros(3, np.float32))})
    with pytest.raises(ModelFileError, match="'surprise' is not one of this codec"):
        plan_folder(folder)
    del tensors["acoustic_encoder.snake1.alpha"]
    write_values(folder / "model.safetensors", tensors)
    with pytest.raises(
        ModelFileError, match=r"1 tensors are missing \(first: acoustic_encoder.snake1.alpha\)"
    ):
        plan_folder(folder)


def test_codebooks_follow_from_the_bandwidth(tiny_checkpoint: Make, data: Path) -> None:
    assert codebooks(read_json(tiny_checkpoint(OMNIVOICE_CODEC) / "config.json")) == 8
    assert codebooks(read_json(data / "fullsize" / "omnivoice_codec" / "config.json")) == 8


def test_a_model_brings_its_codec(tiny_checkpoint: Make) -> None:
    found = resolve([tiny_checkpoint(OMNIVOICE)])
    assert [(folder.name, family.label) for folder, family in found.models] == [
        ("OmniVoice", "OmniVoice"),
        ("audio_tokenizer", "OmniVoice codec"),
    ]


@pytest.mark.parametrize(
    ("outtype", "kind"), [("bf16", "BF16"), ("f16", "F16"), ("auto", "F32"), ("f32", "F32")]
)
def test_the_codec_stays_float32(tiny_checkpoint: Make, outtype: str, kind: str) -> None:
    names = [
        output_path(plan_folder(tiny_checkpoint(name)), outtype, Path("models")).name
        for name in (OMNIVOICE, OMNIVOICE_CODEC)
    ]
    assert names == [f"omnivoice-base-{kind}.gguf", "omnivoice-tokenizer-F32.gguf"]
