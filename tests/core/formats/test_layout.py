"""The tensors that files must hold, against the listings of what the C++ tools wrote, and against our own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ggtts.core.engine import open_gguf
from ggtts.core.errors import ModelFileError
from ggtts.core.formats import omnivoice_layout, qwen_layout
from ggtts.core.formats.layout import ANY, Layout, Shape, fits, require_layout, unknown_names, with_bias
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ggtts.core.formats.qwen import CodecFile, TalkerFile
from ggtts.core.qwen.demo import demo_paths
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC, TALKERS
from support.gguf_files import Listing, read_metadata

BYTES_OF_NO_USE = {"tok_enc.vq_semantic.output_proj.weight", "tok_enc.vq_acoustic.output_proj.weight"}
"""Converters write them, no program reads them."""


class Table:
    """Names and shapes, as `TensorTable`."""

    def __init__(self, shapes: Mapping[str, Shape]):
        self._shapes = shapes

    def __contains__(self, name: str) -> bool:
        return name in self._shapes

    def names(self) -> list[str]:
        return list(self._shapes)

    def shape(self, name: str) -> Shape:
        return self._shapes[name]


def layouts(metadata: Mapping[str, Any], table: Table) -> list[Layout]:
    """All tensors that a file of these keys is expected to hold."""
    architecture = metadata["general.architecture"]
    if architecture == "qwen3-tts":
        talker = TalkerFile.from_metadata(metadata)
        return [qwen_layout.talker_layout(talker), qwen_layout.speaker_encoder_layout(talker, table)]
    if architecture == "qwen3-tts-tokenizer":
        codec = CodecFile.from_metadata(metadata)
        return [qwen_layout.decoder_layout(codec), qwen_layout.encoder_layout(codec)]
    if architecture == "omnivoice-lm":
        return [omnivoice_layout.base_layout(OmniVoiceFile.from_metadata(metadata))]
    other = OmniVoiceCodecFile.from_metadata(metadata, table.names())
    return [omnivoice_layout.decoder_layout(other), omnivoice_layout.encoder_layout(other, table)]


@pytest.mark.parametrize(
    "name", ["qwen-talker-0.6b-base", "qwen-tokenizer-12hz", "omnivoice-base", "omnivoice-tokenizer"]
)
def test_full_size_files_hold_exactly_these(data: Path, name: str) -> None:
    listing = Listing.read(data / "gguf" / f"{name}-F32.txt")
    metadata = {
        key: (value[1] or []) if kind.startswith("ARRAY") else value
        for key, (kind, value) in listing.keys.items()
    }
    table = Table({name: shape for name, (_, shape) in listing.tensors.items()})
    found = layouts(metadata, table)
    for layout in found:
        require_layout(table, layout, name, "a model")
    assert set(unknown_names(table.names(), *found)) <= BYTES_OF_NO_USE


@pytest.mark.parametrize("name", [*TALKERS, CODEC, OMNIVOICE, OMNIVOICE_CODEC])
def test_tiny_files_hold_exactly_these(tiny_gguf: Callable[..., Path], name: str) -> None:
    check_file(tiny_gguf(name))


@pytest.mark.parametrize("index", [0, 1])
def test_the_demo_voice_holds_exactly_these(index: int) -> None:
    check_file(demo_paths()[index])


def check_file(path: Path) -> None:
    file = open_gguf(str(path))
    table = Table({name: tuple(file.shape(name)) for name in file.names})
    found = layouts(read_metadata(path), table)
    for layout in filter(None, found):
        require_layout(table, layout, str(path), "a model")
    assert set(unknown_names(table.names(), *found)) <= BYTES_OF_NO_USE


@pytest.mark.parametrize(
    ("found", "wanted", "fit"),
    [
        ((3, 4), (3, 4), True),
        ((3, 4), (4, 3), False),
        ((4,), (1, 4), True),
        ((1, 1, 4), (4,), True),
        ((96, 7), (1, 96, ANY), True),
        ((7,), (1, 1, 7), True),
        ((7,), (ANY, 1, 7), True),
        ((7,), (2, 1, 7), False),
        ((3, 4, 5), (ANY, ANY, 5), True),
        ((3, 4, 5), (3, 4), False),
        ((1,), (1,), True),
    ],
)
def test_shapes(found: Shape, wanted: Shape, fit: bool) -> None:
    assert fits(found, wanted) is fit


def test_what_is_wrong_is_said() -> None:
    layout: Layout = {"a.weight": (2, 3), "b.weight": (4,)}
    require_layout(Table({"a.weight": (2, 3), "b.weight": (4,), "c": (1,)}), layout, "f", "a model")
    with pytest.raises(ModelFileError, match=r"f: is incomplete, 1 of the 2 tensors of a model"):
        require_layout(Table({"a.weight": (2, 3)}), layout, "f", "a model")
    with pytest.raises(ModelFileError, match=r"a\.weight has the shape \(3, 2\), .* says \(2, 3\)"):
        require_layout(Table({"a.weight": (3, 2), "b.weight": (4,)}), layout, "f", "a model")
    with pytest.raises(ModelFileError, match=r"its tensors have other names \(z \.\.\.\)"):
        require_layout(Table({"z": (1,)}), layout, "f", "a model")
    with pytest.raises(ModelFileError, match="it holds no tensors"):
        require_layout(Table({}), layout, "f", "a model")


def test_a_bias_has_the_outputs() -> None:
    assert dict(with_bias("a", (5, 3, 1))) == {"a.weight": (5, 3, 1), "a.bias": (5,)}
