"""Files move both ways: ours hold all that the C++ loaders read, and what their tools make of codecs works here.

The listings in tests/data/gguf are of files that the C++ converters and quantisers wrote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from ggtts import Codec
from ggtts.core.convert.quantize import plan_quantization, write_quantized
from ggtts.core.convert.quantize_plan import QuantizeOptions
from ggtts.core.inspection import inspect_path
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.qwen.demo import demo_paths
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.gguf_editing import edit_gguf
from support.gguf_files import Listing

Gguf = Callable[..., Path]
TALKER = "Qwen3-TTS-12Hz-0.6B-Base"
LISTINGS = {
    TALKER: "qwen-talker-0.6b-base",
    CODEC: "qwen-tokenizer-12hz",
    OMNIVOICE: "omnivoice-base",
    OMNIVOICE_CODEC: "omnivoice-tokenizer",
}
THEIR_CODEC_KEYS = {"qwen3-tts-tokenizer.decoder.codebook_dim_internal": 256}


def numbered(name: str) -> str:
    """The name without its numbers: tiny models have fewer layers."""
    return re.sub(r"\d+", "N", name)


def keys_of(path: Path) -> dict[str, str]:
    """Keys and their types as the listings spell them."""
    fields = {key: field for key, field in GGUFReader(path).fields.items() if not key.startswith("GGUF.")}
    return {key: "/".join(kind.name for kind in field.types) for key, field in fields.items()}


@pytest.mark.parametrize("name", LISTINGS)
@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0"])
def test_ours_carry_what_their_loaders_read(tiny_gguf: Gguf, data: Path, name: str, kind: str) -> None:
    path = tiny_gguf(name, kind)
    theirs = Listing.read(data / "gguf" / f"{LISTINGS[name]}-F32.txt")
    ours = keys_of(path)
    for key, (kind_of_value, _) in theirs.keys.items():
        assert ours[key] == kind_of_value, key
    names = {numbered(tensor.name) for tensor in GGUFReader(path).tensors}
    assert {numbered(tensor) for tensor in theirs.tensors} - names == set()
    assert {key for key in ours if key not in theirs.keys} <= {
        "general.file_type",
        "general.quantization_version",
    }


@pytest.mark.parametrize("name", LISTINGS)
def test_tensors_have_as_many_dimensions_as_theirs(tiny_gguf: Gguf, data: Path, name: str) -> None:
    """Their loaders look at ne[0] to ne[2]."""
    theirs = Listing.read(data / "gguf" / f"{LISTINGS[name]}-F32.txt")
    expected = {numbered(tensor): len(shape) for tensor, (_, shape) in theirs.tensors.items()}
    for tensor in GGUFReader(tiny_gguf(name)).tensors:
        assert len(tensor.shape) == expected[numbered(tensor.name)], tensor.name


def as_theirs(source: Path, kind: str, folder: Path) -> Path:
    """Quantise a codec by the rules of the C++ tools, and state the type as they do."""
    path = folder / f"{source.stem}-{kind}.gguf"
    write_quantized(
        plan_quantization(source, kind, QuantizeOptions(policy="compat", allow_requantize=True)), path
    )
    return edit_gguf(path, folder / f"theirs-{path.name}", {"general.file_type": kind.upper()})


def signal_to_noise(reference: np.ndarray, other: np.ndarray) -> float:
    noise = np.square(reference - other).mean() + 1e-20
    return float(10 * np.log10(np.square(reference).mean() / noise))


@pytest.mark.parametrize(("kind", "least"), [("bf16", 30.0), ("q8_0", 25.0), ("q4_k_m", 10.0)])
def test_their_quantised_codecs_decode_and_encode(
    tiny_gguf: Gguf, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, least: float
) -> None:
    path = edit_gguf(as_theirs(tiny_gguf(CODEC), kind, tmp_path), tmp_path / "codec.gguf", THEIR_CODEC_KEYS)
    codes = np.random.default_rng(1).integers(0, 64, (20, 16))
    samples = (0.2 * np.sin(np.arange(24_000) * 0.07)).astype(np.float32)
    with Codec.open(tiny_gguf(CODEC), device="cpu") as ours, Codec.open(path, device="cpu") as theirs:
        assert signal_to_noise(ours.decode(codes), theirs.decode(codes)) > least
        assert theirs.encode(samples).shape == ours.encode(samples).shape
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
    oddities = "\n".join(inspect_path(path).oddities)
    assert f"is the text '{kind.upper()}'" in oddities
    assert "codebooks are 32 wide" in oddities


@pytest.mark.parametrize(("kind", "least"), [("bf16", 30.0), ("q8_0", 25.0), ("q4_k_m", 8.0)])
def test_a_codec_with_rows_for_every_block_size(tmp_path: Path, kind: str, least: float) -> None:
    """Of the demo voice: its rows of 512 become K-quants, those of 128 and 320 fall back."""
    source = edit_gguf(
        demo_paths()[1],
        tmp_path / "codec.gguf",
        {"general.file_type": None},
        change=lambda values: values,
        changed_types=("Q8_0", "F16"),
    )
    path = as_theirs(source, kind, tmp_path)
    types = {tensor.tensor_type.name for tensor in GGUFReader(path).tensors}
    assert (
        types
        == {
            "bf16": {"F32", "BF16"},
            "q8_0": {"F32", "F16", "Q8_0"},
            "q4_k_m": {"F32", "F16", "Q4_K"},
        }[kind]
    )
    codes = np.random.default_rng(2).integers(0, 256, (12, 16))
    with Codec.open(source, device="cpu") as ours, Codec.open(path, device="cpu") as theirs:
        assert signal_to_noise(ours.decode(codes), theirs.decode(codes)) > least


@pytest.mark.parametrize(("kind", "least"), [("bf16", 30.0), ("q8_0", 25.0), ("q4_k_m", 10.0)])
def test_their_quantised_omnivoice_codecs(tiny_gguf: Gguf, tmp_path: Path, kind: str, least: float) -> None:
    path = as_theirs(tiny_gguf(OMNIVOICE_CODEC), kind, tmp_path)
    codes = np.random.default_rng(3).integers(0, 64, (10, 8))
    samples = (0.2 * np.sin(np.arange(24_000) * 0.07)).astype(np.float32)
    ours, theirs = (
        OmniVoiceCodec.open(tiny_gguf(OMNIVOICE_CODEC), device="cpu"),
        OmniVoiceCodec.open(path, device="cpu"),
    )
    assert signal_to_noise(ours.decode(codes), theirs.decode(codes)) > least
    assert theirs.encode(samples).shape == ours.encode(samples).shape
