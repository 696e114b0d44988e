"""Metadata of OmniVoice files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader

from ggtts.core.errors import ModelFileError
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from support.data import OMNIVOICE, OMNIVOICE_CODEC
from support.gguf_files import read_metadata

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def base(tiny_gguf: Make) -> dict[str, Any]:
    return read_metadata(tiny_gguf(OMNIVOICE))


@pytest.fixture(scope="module")
def codec(tiny_gguf: Make) -> dict[str, Any]:
    return read_metadata(tiny_gguf(OMNIVOICE_CODEC))


@pytest.fixture(scope="module")
def tensors(tiny_gguf: Make) -> list[str]:
    return [tensor.name for tensor in GGUFReader(tiny_gguf(OMNIVOICE_CODEC)).tensors]


def test_language_model(base: dict[str, Any]) -> None:
    file = OmniVoiceFile.from_metadata(base)
    assert (file.codebooks, file.audio_vocabulary, file.mask_code) == (8, 65, 64)
    assert (file.vocabulary, file.context_length, file.file_type) == (633, 40960, "F32")
    backbone = file.backbone
    assert (backbone.layers, backbone.width, backbone.ffn_width) == (2, 256, 512)
    assert (backbone.heads, backbone.kv_heads, backbone.head_dim, backbone.window) == (4, 2, 64, 0)


def test_codec(codec: dict[str, Any], tensors: list[str]) -> None:
    file = OmniVoiceCodecFile.from_metadata(codec, tensors)
    assert (file.codebooks, file.codebook_entries, file.codebook_width) == (8, 64, 16)
    assert (file.sample_rate, file.frame_samples, file.frame_rate) == (24000, 960, 25.0)
    assert (file.semantic_sample_rate, file.semantic_frame_samples) == (16000, 320)
    assert file.acoustic.downsample_strides == file.acoustic.upsample_strides == (8, 5, 4, 2, 3)
    assert (file.semantic.width, file.semantic.layers, file.semantic.position_kernel) == (64, 2, 128)


def test_quantised_file_of_the_c_program(base: dict[str, Any]) -> None:
    assert OmniVoiceFile.from_metadata(base | {"general.file_type": "Q8_0"}).file_type == "Q8_0"


def test_wrong_files(base: dict[str, Any], codec: dict[str, Any], tensors: list[str]) -> None:
    with pytest.raises(ModelFileError, match="an OmniVoice language model"):
        OmniVoiceFile.from_metadata(codec)
    with pytest.raises(ModelFileError, match="an OmniVoice codec"):
        OmniVoiceCodecFile.from_metadata(base, tensors)
    with pytest.raises(ModelFileError, match="no codebooks"):
        OmniVoiceCodecFile.from_metadata(codec, [])
    with pytest.raises(ModelFileError, match="audio_mask_id is 65, but must be below 65"):
        OmniVoiceFile.from_metadata(base | {"omnivoice.audio_mask_id": 65})
    with pytest.raises(ModelFileError, match=r"no key omnivoice-lm\.block_count"):
        OmniVoiceFile.from_metadata({key: value for key, value in base.items() if "block_count" not in key})
