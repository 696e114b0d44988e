"""Converted files against the checkpoints they come from."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from ggtts.core.convert import (
    classify,
    convert_folder,
    discover,
    gguf_writer,
    output_path,
    plan_folder,
    qwen_codec,
    qwen_talker,
    resolve,
)
from ggtts.core.convert.plan import ModelPlan, PlannedTensor
from ggtts.core.convert.quantize_policy import variant
from ggtts.core.convert.safetensors_reader import Checkpoint
from ggtts.core.errors import ModelFileError, OutputError, UsageError
from support.data import CODEC, TALKERS
from support.gguf_files import read_metadata
from support.platforms import posix_only
from support.safetensors_files import write_hollow, write_values

Make = Callable[..., Path]


@pytest.mark.parametrize("name", TALKERS)
def test_talker_values_are_bit_exact(tiny_checkpoint: Make, tiny_gguf: Make, name: str) -> None:
    checkpoint = Checkpoint.open(tiny_checkpoint(name))
    written = {tensor.name: tensor for tensor in GGUFReader(tiny_gguf(name)).tensors}
    assert len(written) == len(checkpoint)
    for stored in checkpoint:
        tensor = written[str(qwen_talker.gguf_name(stored.name))]
        assert tensor.tensor_type == GGMLQuantizationType.F32
        np.testing.assert_array_equal(tensor.data.view(np.uint32), stored.read().view(np.uint32))


def test_codec_values_are_bit_exact(tiny_checkpoint: Make, tiny_gguf: Make) -> None:
    checkpoint = Checkpoint.open(tiny_checkpoint(CODEC))
    compared = 0
    written = {tensor.name: tensor for tensor in GGUFReader(tiny_gguf(CODEC)).tensors}
    for stored in checkpoint:
        name = qwen_codec.gguf_name(stored.name)
        if name is not None:
            np.testing.assert_array_equal(written[name].data, stored.read())
            compared += 1
    assert compared == len(written) - 32


def test_codebooks_are_sums_over_clamped_usage(tiny_checkpoint: Make, tiny_gguf: Make) -> None:
    checkpoint = Checkpoint.open(tiny_checkpoint(CODEC))
    written = {tensor.name: tensor.data for tensor in GGUFReader(tiny_gguf(CODEC)).tensors}
    clamped = 0
    for number in range(15):
        prefix = f"encoder.quantizer.acoustic_residual_vector_quantizer.layers.{number}.codebook."
        sums, usage = checkpoint[prefix + "embed_sum"].read(), checkpoint[prefix + "cluster_usage"].read()
        clamped += int((usage < 1e-5).sum())
        expected = sums / np.maximum(usage, np.float32(1e-5))[:, None]
        np.testing.assert_array_equal(written[f"tok_enc.vq_acoustic.{number}.codebook"], expected)
        np.testing.assert_array_equal(written[f"tok_dec.vq_rest.{number}.codebook"], expected)
    assert clamped == 30
    assert "tok_enc.vq_acoustic.15.codebook" not in written
    assert "tok_dec.vq_first.input_proj.weight" not in written


def test_codebooks_decode_the_golden_codes(tiny_gguf: Make, golden) -> None:
    """The summed and projected entries of a case's codes are the official quantizer's output."""
    case = golden("codec_decode_short")
    written = {tensor.name: tensor.data for tensor in GGUFReader(tiny_gguf(CODEC)).tensors}
    codes = case["codes"]
    first = written["tok_dec.vq_first.0.codebook"][codes[:, 0]]
    rest = sum(written[f"tok_dec.vq_rest.{i}.codebook"][codes[:, i + 1]] for i in range(15))
    projected = first @ written["tok_dec.vq_first.output_proj.weight"][:, :, 0].T
    projected += rest @ written["tok_dec.vq_rest.output_proj.weight"][:, :, 0].T
    np.testing.assert_allclose(projected.T, case["rvq_out"], rtol=1e-4, atol=1e-4)


def test_hash_merges_and_end_of_text_are_kept(tiny_gguf: Make, data: Path) -> None:
    metadata = read_metadata(tiny_gguf(TALKERS[0]))
    lines = (data / "checkpoints/text_tokenizer/merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    assert metadata["tokenizer.ggml.merges"] == lines
    assert sum(merge.startswith("#") for merge in lines) == 5
    tokens = metadata["tokenizer.ggml.tokens"]
    assert tokens[metadata["tokenizer.ggml.eos_token_id"]] == "<|endoftext|>"
    assert metadata["tokenizer.ggml.token_type"][600:] == [4] * (len(tokens) - 600)


def test_sizes_are_read_from_the_codec(tiny_gguf: Make) -> None:
    metadata = read_metadata(tiny_gguf(CODEC))
    assert metadata["qwen3-tts-tokenizer.decoder.codebook_dim_internal"] == 32
    assert metadata["qwen3-tts-tokenizer.encoder.num_quantizers"] == 32
    assert "general.file_type" not in metadata


def test_gaps_in_the_vocabulary(tiny_checkpoint: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint(TALKERS[1]), tmp_path / "model")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["added_tokens_decoder"]["640"] = {"content": "<late>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    tokens, types = qwen_talker.read_vocabulary(folder)
    assert tokens[633:] == [*(f"<|unused-{i}|>" for i in range(633, 640)), "<late>"]
    assert types[633:] == [5] * 7 + [4]


@pytest.mark.parametrize(
    ("outtype", "number", "kind"), [("bf16", 32, "BF16"), ("f16", 1, "F16"), ("auto", 32, "BF16")]
)
def test_output_types(tiny_gguf: Make, tiny_checkpoint: Make, outtype: str, number: int, kind: str) -> None:
    path = tiny_gguf(TALKERS[0], outtype)
    metadata = read_metadata(path)
    assert (metadata["general.file_type"], metadata["general.quantization_version"]) == (number, 2)
    written = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    matrix, norm = written["talker.blk.0.attn_q.weight"], written["talker.blk.0.attn_norm.weight"]
    assert (matrix.tensor_type.name, norm.tensor_type.name) == (kind, "F32")
    stored = Checkpoint.open(tiny_checkpoint(TALKERS[0]))[
        "talker.model.layers.0.self_attn.q_proj.weight"
    ].read()
    if kind == "BF16":
        np.testing.assert_array_equal(
            dequantize(matrix.data, matrix.tensor_type).view(np.uint32), stored.view(np.uint32)
        )
    else:
        np.testing.assert_array_equal(matrix.data, stored.astype(np.float16))


def test_quantised_values_and_types(tiny_gguf: Make) -> None:
    whole = {tensor.name: tensor for tensor in GGUFReader(tiny_gguf(CODEC)).tensors}
    for tensor in GGUFReader(tiny_gguf(CODEC, "q8_0")).tensors:
        expected = whole[tensor.name].data
        values = dequantize(tensor.data, tensor.tensor_type).reshape(expected.shape)
        assert np.abs(values - expected).max() <= np.abs(expected).max() / 127
        assert (tensor.tensor_type.name == "F32") == (tensor.name not in matrices(whole)), tensor.name


def matrices(whole: dict[str, object]) -> set[str]:
    kept = (".alpha", ".beta", "vq_")
    return {
        name for name, tensor in whole.items() if _dimensions(tensor) > 1 and not any(k in name for k in kept)
    }


def _dimensions(tensor: object) -> int:
    sizes = [int(size) for size in tensor.shape]  # type: ignore[attr-defined]
    while sizes and sizes[-1] == 1:
        sizes.pop()
    return len(sizes)


def test_progress_reaches_the_whole(tiny_checkpoint: Make, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    convert_folder(
        tiny_checkpoint(CODEC), tmp_path / "x.gguf", progress=lambda done, total: seen.append((done, total))
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert (
        seen[-1][0]
        == seen[-1][1]
        == sum(tensor.n_bytes for tensor in GGUFReader(tmp_path / "x.gguf").tensors)
    )


def test_blocks_of_rows_give_the_same_file(
    tiny_checkpoint: Make, tiny_gguf: Make, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(gguf_writer, "BLOCK_VALUES", 1000)
    convert_folder(tiny_checkpoint(TALKERS[0]), tmp_path / "x.gguf")
    assert (tmp_path / "x.gguf").read_bytes() == tiny_gguf(TALKERS[0]).read_bytes()


def test_memory_does_not_grow_with_the_model(tmp_path: Path) -> None:
    """A 128 MB tensor passes through in blocks: the peak stays below half of it."""
    write_hollow(tmp_path / "model.safetensors", [("big", "BF16", [32768, 2048])])
    tensors = [PlannedTensor("big.weight", tensor) for tensor in Checkpoint.open(tmp_path)]
    plan = ModelPlan("test", "test", "test", [], tensors)
    tracemalloc.start()
    gguf_writer.write_gguf(tmp_path / "x.gguf", plan, variant("bf16"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "x.gguf").stat().st_size > 128 * 1024 * 1024
    assert peak < 64 * 1024 * 1024
    (tmp_path / "x.gguf").unlink()


def test_failure_leaves_the_old_file(tiny_checkpoint: Make, tmp_path: Path) -> None:
    target = tmp_path / "x.gguf"
    target.write_bytes(b"old")

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_folder(tiny_checkpoint(CODEC), target, progress=fail)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.gguf"]


def test_unwritable_output(tiny_checkpoint: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"cannot make folder '.*file/sub': '.*file' is a file"):
        convert_folder(tiny_checkpoint(CODEC), tmp_path / "file" / "sub" / "x.gguf")


@posix_only
def test_what_is_no_file_stays_what_it_is(tiny_checkpoint: Make, tmp_path: Path) -> None:
    """Renaming over /dev/null would take it from the whole system."""
    os.mkfifo(tmp_path / "x.gguf")
    with pytest.raises(OutputError, match="it is no file"):
        convert_folder(tiny_checkpoint(CODEC), tmp_path / "x.gguf")
    assert (tmp_path / "x.gguf").is_fifo()


def test_unknown_output_type(tiny_checkpoint: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown type 'f64'"):
        convert_folder(tiny_checkpoint(CODEC), tmp_path / "x.gguf", "f64")


def test_sharded_talker_gives_the_same_file(tiny_checkpoint: Make, tiny_gguf: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint(TALKERS[1]), tmp_path / "model")
    stored = list(Checkpoint.open(folder))
    weight_map = {}
    for number in range(2):
        part = {
            tensor.name: ("BF16", np.fromfile(tensor.path, "<u2", prod(tensor.shape), offset=tensor.offset))
            for tensor in stored[number::2]
        }
        shaped = {
            tensor.name: ("BF16", part[tensor.name][1].reshape(tensor.shape)) for tensor in stored[number::2]
        }
        write_values(folder / f"model-{number}.safetensors", shaped)
        weight_map |= dict.fromkeys(part, f"model-{number}.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    convert_folder(folder, tmp_path / "x.gguf")
    assert (tmp_path / "x.gguf").read_bytes() == tiny_gguf(TALKERS[1]).read_bytes()


def test_names_of_files(tiny_checkpoint: Make) -> None:
    names = [
        output_path(plan_folder(tiny_checkpoint(name)), "f32", Path("models")).name
        for name in (*TALKERS, CODEC)
    ]
    assert names == [
        "qwen-talker-0.6b-base-F32.gguf",
        "qwen-talker-0.6b-customvoice-F32.gguf",
        "qwen-talker-1.7b-base-F32.gguf",
        "qwen-talker-1.7b-customvoice-F32.gguf",
        "qwen-talker-1.7b-voicedesign-F32.gguf",
        "qwen-tokenizer-12hz-F32.gguf",
    ]


def test_classification_does_not_need_the_name(tiny_checkpoint: Make, tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint(TALKERS[1]), tmp_path / "b")
    shutil.copytree(tiny_checkpoint(CODEC), tmp_path / "a")
    (tmp_path / "notes").mkdir()
    found = discover(tmp_path)
    assert [(path.name, family.label) for path, family in found.models] == [
        ("a", "Qwen3-TTS codec"),
        ("b", "Qwen3-TTS talker"),
    ]
    assert [path.name for path, _ in found.skipped] == ["notes"]


def test_nested_codec_stands_in_for_a_missing_one(tiny_checkpoint: Make) -> None:
    folder = tiny_checkpoint(TALKERS[1])
    assert [path for path, _ in resolve([folder]).models] == [folder, folder / "speech_tokenizer"]
    both = resolve([folder, tiny_checkpoint(CODEC)]).models
    assert [path.name for path, _ in both] == [TALKERS[1], CODEC]


def break_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json: is missing"),
    "config is no json": (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "does not hold a JSON object"),
    "other model": (lambda f: break_config(f, model_type="llama"), "model_type 'llama' cannot be converted"),
    "no talker config": (lambda f: break_config(f, talker_config=None), "has no talker_config"),
    "wrong type": (
        lambda f: break_config(f, tts_pad_token_id="x"),
        "tts_pad_token_id is 'x', but must be a whole number",
    ),
    "no merges": (lambda f: (f / "merges.txt").unlink(), "merges.txt: is missing"),
    "merges of three": (lambda f: (f / "merges.txt").write_text("a b c\n"), "is not a pair of tokens"),
    "no vocabulary": (lambda f: (f / "vocab.json").unlink(), "vocab.json: is missing"),
    "binary vocabulary": (lambda f: (f / "vocab.json").write_bytes(b"\xff\xfe"), "is not UTF-8"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds neither"),
    "foreign weights": (
        lambda f: write_hollow(f / "model.safetensors", [("lm_head.weight", "F32", [2, 2])]),
        "tensors are missing",
    ),
}


@pytest.mark.parametrize(("damage", "message"), BREAKS.values(), ids=BREAKS)
def test_broken_talkers(tiny_checkpoint: Make, tmp_path: Path, damage, message: str) -> None:
    folder = shutil.copytree(tiny_checkpoint(TALKERS[1]), tmp_path / "model")
    damage(folder)
    with pytest.raises(ModelFileError, match=message) as raised:
        convert_folder(folder, tmp_path / "x.gguf")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "x.gguf").exists()


def test_unknown_tensors(tiny_checkpoint: Make, tmp_path: Path) -> None:
    """A talker's unknown tensors are a warning; the codec has none."""
    assert qwen_talker.gguf_name("talker.rotary.inv_freq") is None
    assert qwen_talker.gguf_name("talker.model.layers.0.mlp.router.weight") is None
    folder = shutil.copytree(tiny_checkpoint(CODEC), tmp_path / "codec")
    header = [(t.name, t.dtype, t.shape) for t in Checkpoint.open(folder)]
    write_hollow(folder / "model.safetensors", [*header, ("decoder.extra.weight", "F32", [2])])
    with pytest.raises(ModelFileError, match=r"'decoder\.extra\.weight' is not one of this codec"):
        plan_folder(folder)


@pytest.mark.parametrize("name", [TALKERS[2], CODEC])
def test_every_tensor_is_required(tiny_checkpoint: Make, name: str, tmp_path: Path) -> None:
    """Whichever used tensor a checkpoint lacks (every fifth is tried), conversion refuses and says so."""
    folder = shutil.copytree(tiny_checkpoint(name), tmp_path / "model")
    header = [(t.name, t.dtype, t.shape) for t in Checkpoint.open(folder)]
    used = {tensor.source.name for tensor in plan_folder(folder).tensors if hasattr(tensor.source, "name")}
    accepted = []
    for missing in sorted(used)[::5]:
        write_hollow(folder / "model.safetensors", [entry for entry in header if entry[0] != missing])
        try:
            plan_folder(folder)
        except ModelFileError:
            continue
        accepted.append(missing)
    assert accepted == []


def test_no_folder() -> None:
    with pytest.raises(ModelFileError, match="is not a folder"):
        classify(Path("nowhere"))
