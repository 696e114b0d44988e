"""Typed metadata of talker and codec files, from real files and from mappings with faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggtts.core.errors import ModelFileError
from ggtts.core.formats.gguf_types import file_type_name
from ggtts.core.formats.qwen import CodecFile, Speaker, TalkerFile, TransformerSizes, plain_size
from support.data import CODEC, TALKERS, golden_json
from support.gguf_files import read_metadata

Make = Callable[..., Path]


@pytest.fixture(scope="session")
def base(tiny_gguf: Make) -> dict[str, Any]:
    return read_metadata(tiny_gguf("Qwen3-TTS-12Hz-0.6B-Base"))


@pytest.fixture(scope="session")
def codec(tiny_gguf: Make) -> dict[str, Any]:
    return read_metadata(tiny_gguf(CODEC))


def test_talker(base: dict[str, Any]) -> None:
    file = TalkerFile.from_metadata(base)
    assert (file.name, file.model_size, file.model_type) == ("Qwen3-TTS-12Hz-0.6B-base", "0.6b", "base")
    assert (file.codebooks, file.vocabulary, file.text_vocabulary, file.text_width) == (16, 1088, 640, 512)
    assert (file.codebook_entries, file.context_length, file.file_type) == (64, 32768, "F32")
    assert file.talker == TransformerSizes(
        layers=2, width=256, ffn_width=512, heads=4, kv_heads=2, head_dim=64, rope_theta=1e6,
        norm_eps=pytest.approx(1e-6),
    )  # fmt: skip
    assert file.languages["english"] == 66
    assert next(iter(file.languages)) == "chinese"
    assert (file.tokens.codec_end, file.tokens.message_begin, file.tokens.text_end) == (166, 601, 600)
    assert (file.generation.top_k, file.generation.sub_top_k) == (50, 50)
    assert file.generation.temperature == pytest.approx(0.9)
    assert file.generation.do_sample is True
    assert file.speaker_encoder is not None
    assert (file.speaker_encoder.width, file.speaker_encoder.sample_rate) == (256, 24000)
    assert file.speakers == {}


def test_custom_voice(tiny_gguf: Make) -> None:
    file = TalkerFile.from_metadata(read_metadata(tiny_gguf("Qwen3-TTS-12Hz-1.7B-CustomVoice")))
    assert (file.model_size, file.model_type, file.speaker_encoder) == ("1.7b", "custom_voice", None)
    assert file.speakers["eric"] == Speaker(2875 - 2048 + 64, "sichuan_dialect")
    assert file.speakers["serena"].dialect == ""
    assert set(file.languages) > {"beijing_dialect", "sichuan_dialect"}


@pytest.mark.parametrize("name", TALKERS)
def test_every_talker_agrees_with_what_the_official_package_ran(tiny_gguf: Make, name: str) -> None:
    file = TalkerFile.from_metadata(read_metadata(tiny_gguf(name)))
    cases = [
        case
        for key, case in golden_json("qwen_summary").items()
        if name.removeprefix("Qwen3-TTS-12Hz-") in key
    ]
    stops = {case["eos"] for case in cases if "eos" in case}
    assert stops <= {file.tokens.codec_end}
    assert name.casefold() == f"{file.name}".replace("_", "").casefold()


def test_codec(codec: dict[str, Any]) -> None:
    file = CodecFile.from_metadata(codec)
    assert (file.sample_rate, file.frame_samples, file.frame_rate, file.codebooks) == (24000, 1920, 12.5, 16)
    decoder, encoder = file.decoder, file.encoder
    assert (decoder.codebook_width, decoder.codebook_inner_width, decoder.codebook_entries) == (64, 32, 64)
    assert (decoder.transformer.window, decoder.transformer.layers, decoder.channels) == (72, 2, 32)
    assert (decoder.upsample_strides, decoder.dac_strides) == ((2, 2), (8, 5, 4, 3))
    assert (encoder.strides, encoder.quantizers, encoder.filters) == ((4, 5, 6, 8), 32, 4)
    assert encoder.transformer.window == 0


@pytest.mark.parametrize("tag", ["0b6", "0.6b", "0.6B"])
def test_both_spellings_of_the_size(base: dict[str, Any], tag: str) -> None:
    assert TalkerFile.from_metadata({**base, "qwen3-tts.model_size": tag}).model_size == "0.6b"
    assert plain_size(tag) == "0.6b"


@pytest.mark.parametrize(
    ("stated", "name"),
    [("Q8_0", "Q8_0"), (7, "Q8_0"), (15, "Q4_K_M"), (32, "BF16"), (0, "F32"), (999, "type 999")],
)
def test_file_type_as_text_and_as_number(base: dict[str, Any], stated: object, name: str) -> None:
    assert TalkerFile.from_metadata({**base, "general.file_type": stated}).file_type == name
    assert file_type_name({}) == "F32"


@pytest.mark.parametrize("architecture", ["llama", "qwen3-tts-tokenizer", "omnivoice-lm"])
def test_another_architecture(base: dict[str, Any], architecture: str) -> None:
    with pytest.raises(
        ModelFileError, match=rf"a\.gguf: is .*\(architecture '{architecture}'\), but a Qwen3-TTS talker"
    ):
        TalkerFile.from_metadata({**base, "general.architecture": architecture}, "a.gguf")


def test_no_architecture_and_swapped_files(base: dict[str, Any], codec: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="does not say what it is"):
        CodecFile.from_metadata({})
    with pytest.raises(ModelFileError, match="a Qwen3-TTS codec"):
        CodecFile.from_metadata(base)
    with pytest.raises(ModelFileError, match="a Qwen3-TTS talker"):
        TalkerFile.from_metadata(codec)


OPTIONAL = (
    "general.name",
    "model_size",
    "tokenizer_type",
    "context_length",
    "position_id_per_seconds",
    "mrope",
    "spk_enc",
    "language",
    "generation.",
    "tokenizer.ggml",
    "layer_scale",
    "vector_quantization",
)


def test_every_other_key_is_required(base: dict[str, Any], codec: dict[str, Any]) -> None:
    """Leaving out one key at a time either names it or, for the optional ones, reads a default."""
    required = 0
    for metadata, read in ((base, TalkerFile.from_metadata), (codec, CodecFile.from_metadata)):
        for key in metadata:
            rest = {name: value for name, value in metadata.items() if name != key}
            if key.startswith(OPTIONAL) or any(part in key for part in OPTIONAL):
                if "language" not in key and key != "qwen3-tts.spk_enc.sample_rate":
                    read(rest)
            elif key != "general.architecture":
                required += 1
                with pytest.raises(ModelFileError, match=key.replace(".", r"\.")):
                    read(rest)
    assert required > 70


def test_defaults_of_a_bare_file(base: dict[str, Any]) -> None:
    bare = {key: value for key, value in base.items() if not any(part in key for part in OPTIONAL)}
    file = TalkerFile.from_metadata(bare)
    assert (file.languages, file.speakers, file.speaker_encoder) == ({}, {}, None)
    assert (file.name, file.model_size, file.context_length, file.tokens.text_end) == ("", "", 0, None)
    assert file.generation.top_k is None


FAULTS = {
    "zero layers": ("qwen3-tts.talker.block_count", 0, "must be at least 1"),
    "one codebook": ("qwen3-tts.num_code_groups", 1, "at least 2"),
    "text for a number": ("qwen3-tts.talker.vocab_size", "many", "must be a whole number"),
    "number for text": ("qwen3-tts.model_type", 3, "must be a string"),
    "unequal lists": ("qwen3-tts.codec.language_ids", [1], "10 languages, but has 1"),
    "text for a list": ("qwen3-tts.codec.language_names", "english", "must be an array"),
    "speakers without ids": ("qwen3-tts.codec.speaker_names", ["a"], "1 speakers, but has 0 ids"),
}


@pytest.mark.parametrize(("key", "value", "message"), FAULTS.values(), ids=FAULTS)
def test_faulty_values(base: dict[str, Any], key: str, value: object, message: str) -> None:
    with pytest.raises(ModelFileError, match=message) as raised:
        TalkerFile.from_metadata({**base, key: value})
    assert "\n" not in str(raised.value)
