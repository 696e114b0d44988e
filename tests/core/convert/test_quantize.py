"""Quantised files: their types, their bytes, their metadata, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType
from gguf.quants import quantize as gguf_quantize

from ggtts import _native
from ggtts.core.convert import quantize as quantizing
from ggtts.core.convert.gguf_header import read_header
from ggtts.core.convert.importance import Importance, read_importance
from ggtts.core.convert.quantize import QuantizeOptions, plan_quantization, quantize
from ggtts.core.convert.quantize_mix import RECIPES, Where, fitting, locate
from ggtts.core.convert.quantize_plan import TYPES, Override
from ggtts.core.convert.quantize_policy import QUANTIZE_VARIANTS, tensor_type
from ggtts.core.errors import ModelFileError, UsageError
from support.gguf_editing import edit_gguf
from support.gguf_files import Listing, read_metadata
from support.quantize_files import (
    stored_bytes,
    stored_types,
    talker_arrays,
    write_importance,
    write_model,
    write_old_importance,
)

Kind = GGMLQuantizationType

LISTINGS = {
    "qwen-talker-0.6b-base": "qwen3-tts",
    "qwen-tokenizer-12hz": "qwen3-tts-tokenizer",
    "omnivoice-base": "omnivoice-lm",
    "omnivoice-tokenizer": "omnivoice-tokenizer",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("quantize") / "model-F32.gguf", talker_arrays())


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor takes several blocks."""
    monkeypatch.setattr(quantizing, "LARGEST_BLOCK", 1024)


@pytest.mark.parametrize("file_type", ["BF16", "Q8_0", "Q4_K_M"])
@pytest.mark.parametrize("stem", LISTINGS)
def test_compat_types_are_those_of_the_cpp_tool(data: Path, stem: str, file_type: str) -> None:
    source = Listing.read(data / "gguf" / f"{stem}-F32.txt")
    target = Listing.read(data / "gguf" / f"{stem}-{file_type}.txt")
    stated = source.keys.get(f"{LISTINGS[stem]}.block_count", ("", 0))
    ours = {
        name: tensor_type(name, shape, QUANTIZE_VARIANTS[file_type], layers=int(stated[1])).name
        for name, (_, shape) in source.tensors.items()
    }
    assert ours == {name: kind for name, (kind, _) in target.tensors.items()}


def mixed(data: Path, stem: str, file_type: str, layers: int = 28) -> dict[str, str]:
    """Types of the mixture for a full-size model."""
    found = {}
    for name, (_, shape) in Listing.read(data / "gguf" / f"{stem}-F32.txt").tensors.items():
        place = locate(LISTINGS[stem], name, tuple(reversed(shape)), layers)
        kept = place.part.value in ("vector", "kept")
        kind = Kind.F32 if kept else fitting(RECIPES[file_type].kind(place), shape[-1])
        found[name] = kind.name
    return found


def test_mix_of_a_talker(data: Path) -> None:
    types = mixed(data, "qwen-talker-0.6b-base", "Q4_K_M")
    assert types["talker.text_embd.weight"] == "Q6_K"
    assert types["talker.codec_head.weight"] == types["code_pred.lm_head.7.weight"] == "Q8_0"
    assert types["talker.codec_embd.weight"] == types["code_pred.codec_embd.3.weight"] == "Q8_0"
    assert types["talker.text_proj.fc1.weight"] == "Q8_0"
    assert types["talker.blk.0.attn_q.weight"] == types["talker.blk.0.attn_output.weight"] == "Q4_K"
    assert [types[f"talker.blk.{i}.attn_v.weight"] for i in (0, 2, 3, 5, 27)] == [
        "Q6_K", "Q6_K", "Q5_K", "Q6_K", "Q6_K",
    ]  # fmt: skip
    assert types["talker.blk.4.ffn_down.weight"] == "Q5_K"
    assert types["code_pred.blk.2.ffn_gate.weight"] == "Q5_K"
    assert types["code_pred.blk.2.ffn_down.weight"] == "Q6_K"
    assert {kind for name, kind in types.items() if name.startswith("spk_enc.")} == {"F32"}


def test_mix_of_codecs(data: Path) -> None:
    types = mixed(data, "qwen-tokenizer-12hz", "Q4_K_M")
    assert types["tok_enc.blk.0.attn_q.weight"] == "Q8_0"
    assert types["tok_dec.pre_tfm.blk.0.ffn_up.weight"] == "Q6_K"
    assert types["tok_dec.upsample.0.pwconv1.weight"] == "Q6_K"
    assert types["tok_dec.dec.1.conv_t.weight"] == types["tok_enc.res.1.blk.3.weight"] == "F16"
    assert types["tok_dec.vq_first.output_proj.weight"] == types["tok_enc.vq_acoustic.3.codebook"] == "F32"
    types = mixed(data, "omnivoice-tokenizer", "Q4_K_M")
    assert types["semantic_model.encoder.layers.3.attention.q_proj.weight"] == "Q8_0"
    assert types["semantic_model.encoder.pos_conv_embed.conv.weight"] == "F16"
    assert types["fc.weight"] == types["quantizer.quantizers.0.project_in.weight"] == "F32"
    assert types["acoustic_decoder.block.0.res_unit1.snake1.alpha"] == "F32"
    # Tools drop the last dimension of a kernel with one output.
    place = locate("omnivoice-tokenizer", "acoustic_decoder.conv2.weight", (7, 32), 1)
    assert place.part.value == "convolution"


def test_mix_of_omnivoice(data: Path) -> None:
    types = mixed(data, "omnivoice-base", "Q4_K_M")
    assert types["llm.embed_tokens.weight"] == "Q6_K"
    assert types["audio_heads.weight"] == types["audio_embeddings.weight"] == "Q8_0"
    assert types["llm.layers.0.self_attn.v_proj.weight"] == "Q6_K"
    assert types["llm.layers.4.mlp.down_proj.weight"] == "Q5_K"
    assert types["llm.layers.4.self_attn.q_proj.weight"] == "Q4_K"


def test_larger_types_are_larger(data: Path) -> None:
    source = Listing.read(data / "gguf" / "qwen-talker-0.6b-base-F32.txt").tensors
    sizes = []
    for file_type in (
        "Q2_K",
        "Q3_K_S",
        "Q3_K_M",
        "Q3_K_L",
        "Q4_K_S",
        "Q4_K_M",
        "Q5_K_S",
        "Q5_K_M",
        "Q6_K",
        "Q8_0",
        "BF16",
    ):
        types = mixed(data, "qwen-talker-0.6b-base", file_type)
        layouts = {name: _native.type_layout(kind.lower()) for name, kind in types.items()}
        sizes.append(sum(np.prod(source[n][1]) / v * b for n, (v, b, _) in layouts.items()))
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("kind", "width", "expected"),
    [
        (Kind.Q4_K, 512, Kind.Q4_K),
        (Kind.Q4_K, 96, Kind.Q5_0),
        (Kind.Q6_K, 96, Kind.Q8_0),
        (Kind.Q2_K, 96, Kind.IQ4_NL),
        (Kind.Q5_K, 7, Kind.F16),
        (Kind.Q8_0, 48, Kind.F16),
        (Kind.BF16, 7, Kind.BF16),
    ],
)
def test_rows_that_are_no_blocks(kind: Kind, width: int, expected: Kind) -> None:
    assert fitting(kind, width) is expected


def test_layers_with_more_bits() -> None:
    def chosen(where: Where, layers: int) -> list[int]:
        places = [locate("qwen3-tts", f"talker.blk.{i}.attn_v.weight", (8, 8), layers) for i in range(layers)]
        return [place.layer for place in places if place.chosen(where)]

    assert chosen(Where.EDGES, 16) == [0, 1, 14, 15]
    assert chosen(Where.THIRDS, 16) == [0, 1, 4, 7, 10, 13, 14, 15]
    assert chosen(Where.EDGES, 2) == [0, 1]
    assert chosen(Where.ALL, 5) == list(range(5))


@pytest.mark.parametrize("file_type", TYPES)
def test_bytes_are_those_of_ggml(model: Path, tmp_path: Path, file_type: str) -> None:
    arrays, target = talker_arrays(), tmp_path / "out.gguf"
    done = quantize(model, target, file_type.lower(), threads=3)
    types = stored_types(target)
    assert types["talker.output_norm.weight"] == types["spk_enc.fc.weight"] == "F32"
    for name, stored in stored_bytes(target).items():
        rows = arrays[name].reshape(-1, arrays[name].shape[-1])
        assert stored == _native.quantize_rows(rows, types[name].lower()).tobytes(), name
        if types[name] in ("BF16", "F16", "Q8_0", "Q4_0", "Q5_0", "Q5_1"):
            assert stored == gguf_quantize(rows, Kind[types[name]]).tobytes(), name
    assert done.size == target.stat().st_size
    assert list(types) == list(arrays)


def test_thread_count_and_block_size_change_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantize(model, tmp_path / "one.gguf", "Q4_K_M", threads=1)
    monkeypatch.setattr(quantizing, "LARGEST_BLOCK", 1)
    quantize(model, tmp_path / "two.gguf", "Q4_K_M", threads=7)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


@pytest.mark.parametrize("alignment", [None, 256])
def test_metadata_is_kept_to_the_byte(tmp_path: Path, alignment: int | None) -> None:
    source = write_model(tmp_path / "a.gguf", talker_arrays(), alignment=alignment)
    target = tmp_path / "b.gguf"
    quantize(source, target, "Q4_K_M")
    before, after = read_header(source), read_header(target)
    assert {key: after.entries[key] for key in before.entries} == dict(before.entries)
    assert list(after.entries)[: len(before.entries)] == list(before.entries)
    assert [tensor.dimensions for tensor in after.tensors] == [t.dimensions for t in before.tensors]
    assert all(tensor.offset % (alignment or 32) == 0 for tensor in after.tensors)
    fields = GGUFReader(target).fields
    assert (fields["general.file_type"].contents(), fields["general.file_type"].types) == (
        15,
        [GGUFValueType.UINT32],
    )
    assert fields["general.quantization_version"].contents() == 2
    assert _native.GgufFile(str(target)).metadata["test.words"] == ["eins", "zwei", ""]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_16_bit_sources(tmp_path: Path, dtype: type[np.generic]) -> None:
    source = write_model(tmp_path / "a.gguf", talker_arrays(), dtype=dtype)
    quantize(source, tmp_path / "b.gguf", "Q8_0")
    rows = talker_arrays()["talker.blk.1.attn_q.weight"].astype(dtype).astype(np.float32)
    stored = stored_bytes(tmp_path / "b.gguf")["talker.blk.1.attn_q.weight"]
    assert stored == _native.quantize_rows(rows, "q8_0").tobytes()


def test_bfloat16_source_is_quantised_like_its_values(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "a.gguf", "BF16")
    quantize(tmp_path / "a.gguf", tmp_path / "b.gguf", "Q4_K_M")
    name = "talker.blk.1.attn_q.weight"
    values = _native.GgufFile(str(tmp_path / "a.gguf")).array(name)
    assert stored_bytes(tmp_path / "b.gguf")[name] == _native.quantize_rows(values, "q4_k").tobytes()


def test_compat_policy_in_a_file(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "a.gguf", "Q4_K_M", QuantizeOptions("compat"))
    types = stored_types(tmp_path / "a.gguf")
    assert types["talker.blk.0.attn_v.weight"] == "Q4_K"
    assert types["talker.text_embd.weight"] == types["talker.codec_embd.weight"] == "Q6_K"
    assert types["talker.text_proj.fc1.weight"] == types["spk_enc.conv0.weight"] == "F16"
    with pytest.raises(UsageError, match="compat knows no IQ4_NL"):
        plan_quantization(model, "IQ4_NL", QuantizeOptions("compat"))


def test_quantised_sources_need_permission(model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a.gguf", tmp_path / "b.gguf"
    quantize(model, source, "Q4_0")
    with pytest.raises(UsageError, match=r"quantised already .*; allow_requantize does"):
        quantize(source, target, "Q8_0")
    quantize(source, target, "Q2_K", QuantizeOptions(allow_requantize=True))
    before, after = stored_types(source), stored_types(target)
    name = "talker.blk.3.attn_q.weight"
    assert (before[name], after[name]) == ("Q4_0", "Q2_K")
    values = _native.GgufFile(str(source)).array(name)
    assert stored_bytes(target)[name] == _native.quantize_rows(values, "q2_k").tobytes()
    # Nothing gets larger: that would be no better.
    quantize(source, target, "Q8_0", QuantizeOptions(allow_requantize=True))
    assert stored_types(target)[name] == "Q4_0"


def test_overrides(model: Path) -> None:
    overrides = [
        Override.parse("attn_v=q6_k"),
        Override.parse(r"blk\.0\.attn_v=F16"),
        Override.parse(".=q8_0"),
    ]
    plan = plan_quantization(model, "Q4_K_M", QuantizeOptions(overrides=overrides[:2]))
    types = {tensor.target.name: tensor.target.kind.name for tensor in plan.tensors}
    assert types["talker.blk.0.attn_v.weight"] == types["code_pred.blk.0.attn_v.weight"] == "F16"
    assert types["talker.blk.5.attn_v.weight"] == "Q6_K"
    assert types["talker.blk.5.attn_q.weight"] == "Q4_K"
    plan = plan_quantization(model, "Q4_K_M", QuantizeOptions(overrides=overrides[2:]))
    types = {tensor.target.name: tensor.target.kind.name for tensor in plan.tensors}
    # Where the type does not fit, and in one dimension, the policy still decides.
    assert types["spk_enc.conv0.weight"] == types["talker.output_norm.weight"] == "F32"
    assert types["talker.text_embd.weight"] == "Q8_0"


@pytest.mark.parametrize(
    ("text", "message"),
    [("attn_v", "PATTERN=TYPE"), ("=q8_0", "PATTERN=TYPE"), ("a=q9", "unknown type"), ("(=q8_0", "regular")],
)
def test_bad_overrides(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Override.parse(text)


def test_override_that_matches_nothing(model: Path) -> None:
    options = QuantizeOptions(overrides=[Override.parse("attn_x=q8_0")])
    with pytest.raises(UsageError, match="no tensor's name has 'attn_x'"):
        plan_quantization(model, "Q8_0", options)


@pytest.mark.parametrize("write", [write_importance, write_old_importance])
def test_importance(model: Path, tmp_path: Path, write: object) -> None:
    name = "talker.blk.3.attn_q.weight"
    columns = np.random.default_rng(1).uniform(0.01, 9, 256).astype(np.float32)
    importance = read_importance(write(tmp_path / "importance", {name: columns, "other": columns}))  # type: ignore[operator]
    np.testing.assert_allclose(importance.columns[name], columns, rtol=1e-6)
    done = quantize(model, tmp_path / "a.gguf", "Q4_K_M", QuantizeOptions(importance=importance))
    rows = talker_arrays()[name]
    stored = stored_bytes(tmp_path / "a.gguf")[name]
    assert stored == _native.quantize_rows(rows, "q4_k", importance.columns[name]).tobytes()
    assert stored != _native.quantize_rows(rows, "q4_k").tobytes()
    assert done.warnings == ("1 of 22 quantised tensors were weighed by importance",)
    metadata = read_metadata(tmp_path / "a.gguf")
    assert metadata["quantize.imatrix.file"] == "importance"
    assert metadata["quantize.imatrix.entries_count"] == 1
    assert metadata["quantize.imatrix.chunks_count"] == 5


def test_importance_of_another_model(model: Path) -> None:
    ones = np.ones(8, np.float32)
    for columns, message in (
        ({"blk.0.attn_q.weight": ones}, "none of its 1 weights is in it"),
        ({"talker.blk.0.attn_q.weight": ones}, "8 columns in it, in the model 256"),
    ):
        options = QuantizeOptions(importance=Importance(Path("i.dat"), columns))
        with pytest.raises(UsageError, match=message):
            plan_quantization(model, "Q4_K_M", options)


@pytest.mark.parametrize(
    "data", [b"", b"\x01\0\0\0", b"\xff\xff\xff\x7f\x05\0\0\0abc", b"\x01\0\0\0\xff\xff\xff\xff"]
)
def test_damaged_importance(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.dat"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"bad\.dat: is truncated, or no importance file"):
        read_importance(path)


def test_importance_that_is_none(tmp_path: Path) -> None:
    path = write_old_importance(tmp_path / "bad.dat", {"a": np.array([1, np.nan], np.float32)})
    with pytest.raises(ModelFileError, match="importance of a is negative or no number"):
        read_importance(path)
    write_old_importance(path, {"a": np.zeros(2, np.float32)})
    with pytest.raises(ModelFileError, match="holds no importance of any weight"):
        read_importance(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_importance(tmp_path / "missing")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers(tmp_path: Path, bad: float) -> None:
    arrays = talker_arrays()
    arrays["talker.blk.4.attn_q.weight"][3, 5] = bad
    source = write_model(tmp_path / "a.gguf", arrays)
    with pytest.raises(
        ModelFileError, match=r"talker\.blk\.4\.attn_q\.weight holds values that are no numbers"
    ):
        quantize(source, tmp_path / "b.gguf", "Q4_K_M")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_what_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown type 'Q9' \(accepted: BF16, F16"):
        quantize(model, tmp_path / "a.gguf", "Q9")
    with pytest.raises(UsageError, match="is the source itself"):
        quantize(model, model, "Q8_0")
    foreign = write_model(tmp_path / "llama.gguf", talker_arrays(), "llama")
    with pytest.raises(ModelFileError, match="architecture 'llama', but quantize knows qwen3-tts"):
        quantize(foreign, tmp_path / "a.gguf", "Q8_0")
    bare = write_model(tmp_path / "bare.gguf", {})
    with pytest.raises(ModelFileError, match=r"bare\.gguf: holds no tensors"):
        quantize(bare, tmp_path / "a.gguf", "Q8_0")
    (tmp_path / "cut.gguf").write_bytes(model.read_bytes()[:3000])
    with pytest.raises(ModelFileError, match=r"cut\.gguf"):
        quantize(tmp_path / "cut.gguf", tmp_path / "a.gguf", "Q8_0")


def test_progress_and_interruption(model: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    quantize(model, tmp_path / "a.gguf", "Q8_0", progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(model, tmp_path / "b.gguf", "Q8_0", progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.parametrize("policy", ["mix", "compat"])
def test_a_count_of_layers_that_is_no_number(model: Path, tmp_path: Path, policy: str) -> None:
    keys = ("qwen3-tts.block_count", "qwen3-tts.talker.block_count")
    path = edit_gguf(model, tmp_path / "odd.gguf", dict.fromkeys(keys, "many"))
    with pytest.raises(ModelFileError, match="block_count is 'many', but must be a whole number"):
        plan_quantization(path, "q4_k_m", QuantizeOptions(policy=policy))


@pytest.mark.parametrize(
    ("chunks", "message"), [("many", "must be a whole number"), (2**32 - 1, "which no file has")]
)
def test_a_count_of_chunks_that_cannot_be(tmp_path: Path, chunks: object, message: str) -> None:
    sound = write_importance(tmp_path / "sound", {"a": np.ones(64, np.float32)})
    path = edit_gguf(sound, tmp_path / "odd", {"imatrix.chunk_count": chunks})
    with pytest.raises(ModelFileError, match=message):
        read_importance(path)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_one_error(tmp_path: Path, value: float) -> None:
    """NumPy warns of nothing besides."""
    for write in (write_importance, write_old_importance):
        path = write(tmp_path / "imatrix", {"a": np.array([1, value], np.float32)})
        with pytest.raises(ModelFileError, match="the importance of a is negative or no number"):
            read_importance(path)
    arrays = talker_arrays()
    arrays["talker.text_embd.weight"][:2] = [np.full(256, 3e38, np.float32), np.full(256, value, np.float32)]
    path = write_model(tmp_path / "model.gguf", arrays)
    with pytest.raises(ModelFileError, match=r"talker.text_embd.weight holds values that are no numbers"):
        quantize(path, tmp_path / "out.gguf", "q8_0")
