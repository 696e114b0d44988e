"""The packaged demo voice: what the files are, and how large."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from gguf import GGUFReader

from ggtts.core.formats.qwen import CodecFile, TalkerFile
from support.gguf_files import read_metadata

DEMO = Path(__file__).resolve().parents[3] / "demo"
TALKER, CODEC = DEMO / "ggtts-demo-talker-Q8_0.gguf", DEMO / "ggtts-demo-codec-Q8_0.gguf"


def test_facts() -> None:
    talker = TalkerFile.from_metadata(read_metadata(TALKER))
    codec = CodecFile.from_metadata(read_metadata(CODEC))
    assert list(talker.speakers) == ["adam", "eva", "dario", "nora"]
    assert (talker.model_type, list(talker.languages), talker.tokens.text_end) == (
        "custom_voice",
        ["english"],
        635,
    )
    assert (talker.generation.top_k, talker.generation.temperature) == (20, pytest.approx(0.7))
    assert talker.codebook_entries == codec.decoder.codebook_entries == 256
    assert (codec.decoder.codebook_inner_width, codec.decoder.channels, codec.codebooks) == (48, 256, 16)


def test_size_and_types() -> None:
    assert TALKER.stat().st_size + CODEC.stat().st_size < 17_000_000
    counts = Counter(
        tensor.tensor_type.name for path in (TALKER, CODEC) for tensor in GGUFReader(path).tensors
    )
    assert counts == {"Q8_0": 138, "F16": 50, "F32": 223}
    assert any(tensor.name.startswith("tok_enc.") for tensor in GGUFReader(CODEC).tensors)
