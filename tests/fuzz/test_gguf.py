"""Damaged and hostile GGUF files: the native reader, metadata of any kind, and models that load or say why not."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts._native import FileError
from ggtts.core.engine import open_gguf
from ggtts.core.formats.gguf_types import file_type_name
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ggtts.core.formats.qwen import CodecFile, TalkerFile
from ggtts.core.inspection import inspect_path
from ggtts.core.text.tokenizer import TextTokenizer
from support import limited_reader
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.fuzzing import (
    EXAMPLES,
    HOSTILE_SIZES,
    MUTATIONS,
    QUICK,
    Mutation,
    mutate,
    only_clear_errors,
    read_in_limited_process,
)
from support.gguf_files import read_metadata
from support.patience import PATIENCE

Gguf = Callable[..., Path]
TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
NAMES = (TALKER, CODEC, OMNIVOICE, OMNIVOICE_CODEC)
HEAD = 60_000
"""Bytes of a tiny file in which all of its keys and tensor names lie."""


@pytest.fixture(scope="module")
def small_file() -> bytes:
    """A well-formed file with a key of each type and a tensor of several."""
    return gguf_bytes(
        keys=[
            (b"general.architecture", 8, text(b"qwen3-tts")),
            (b"general.alignment", 4, struct.pack("<I", 32)),
            *[(b"k%d" % kind, kind, bytes(size)) for kind, size in enumerate((1, 1, 2, 2, 4, 4, 4, 1))],
            (b"numbers", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
            (b"texts", 9, struct.pack("<IQ", 8, 2) + text(b"a") + text(b"bc")),
            *[(b"wide%d" % kind, kind, bytes(8)) for kind in (10, 11, 12)],
        ],
        tensors=[(b"a.weight", (32, 4), 0, 0), (b"b.weight", (64,), 8, 512), (b"c", (256, 2), 12, 608)],
        values=bytes(1024),
    )


def text(value: bytes) -> bytes:
    """A string as GGUF has it."""
    return struct.pack("<Q", len(value)) + value


def gguf_bytes(
    keys: list[tuple[bytes, int, bytes]],
    tensors: list[tuple[bytes, tuple[int, ...], int, int]],
    values: bytes,
    *,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A file of these keys (name, type, value) and tensors (name, ne, type, offset)."""
    stated = counts or (len(tensors), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", 3, *stated)
    head += b"".join(text(name) + struct.pack("<I", kind) + value for name, kind, value in keys)
    for name, shape, kind, offset in tensors:
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += text(name) + dimensions + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % 32) + values


def read_all(path: Path) -> None:
    """Everything the native reader offers."""
    file = open_gguf(str(path))
    assert isinstance(file.metadata, dict)
    for name in file.names:
        assert file.nbytes(name) <= path.stat().st_size
        assert min(file.shape(name)) > 0
        assert file.dtype(name)


def test_the_sound_file_is_sound(small_file: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(small_file)
    assert only_clear_errors(lambda: read_all(tmp_path / "a.gguf"))


@QUICK
@given(mutations=MUTATIONS)
def test_damaged_headers(small_file: bytes, tmp_path: Path, mutations: list[Mutation]) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(mutate(small_file, mutations))
    if only_clear_errors(lambda: read_all(path)):
        only_clear_errors(lambda: inspect_path(path))


@pytest.mark.parametrize("size", HOSTILE_SIZES)
def test_hostile_sizes(tmp_path: Path, size: int) -> None:
    """Counts, lengths, dimensions and offsets of every size."""
    value = size % 2**64
    plain = (b"a", (32, 4), 0, 0)
    variants = {
        "tensors": gguf_bytes([], [plain], bytes(512), counts=(value, 0)),
        "keys": gguf_bytes([], [plain], bytes(512), counts=(1, value)),
        "key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, value) + bytes(100),
        "text": gguf_bytes([(b"a", 8, struct.pack("<Q", value) + b"x")], [], bytes(64)),
        "array": gguf_bytes([(b"a", 9, struct.pack("<IQ", 4, value) + bytes(8))], [], bytes(64)),
        "texts": gguf_bytes([(b"a", 9, struct.pack("<IQQ", 8, value, value))], [], bytes(64)),
        "nested": gguf_bytes([(b"a", 9, struct.pack("<IQIQ", 9, 1, 4, value))], [], bytes(64)),
        "alignment": gguf_bytes(
            [(b"general.alignment", 4, struct.pack("<I", size % 2**32))], [plain], bytes(512)
        ),
        "ne0": gguf_bytes([], [(b"a", (value, 4), 0, 0)], bytes(512)),
        "ne1": gguf_bytes([], [(b"a", (32, value), 8, 0)], bytes(512)),
        "ne": gguf_bytes([], [(b"a", (value, value, value, value), 0, 0)], bytes(512)),
        "offset": gguf_bytes([], [(b"a", (32, 4), 0, value)], bytes(512)),
        "type": gguf_bytes([], [(b"a", (256, 4), size % 2**32, 0)], bytes(8192)),
        "dimensions": b"GGUF"
        + struct.pack("<IQQ", 3, 1, 0)
        + text(b"a")
        + struct.pack("<IQQ", size % 2**32, 1, 1),
    }
    for name, data in variants.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(data)
        only_clear_errors(lambda path=path: read_all(path))


@pytest.mark.parametrize("version", [0, 1, 4, 2**24, 2**32 - 1])
def test_versions(small_file: bytes, tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(small_file[:4] + struct.pack("<I", version) + small_file[8:])
    assert not only_clear_errors(lambda: read_all(path))


ANY_VALUE = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from(HOSTILE_SIZES),
    st.floats(),
    st.booleans(),
    st.text(max_size=8),
    st.just("\udc80"),
    st.lists(st.integers(-(2**31), 2**32 - 1), max_size=6),
    st.lists(st.floats(width=32), max_size=3),
    st.lists(st.text(max_size=4), max_size=4),
    st.just([]),
)


def describe(metadata: dict[str, Any], tensors: list[str]) -> None:
    """Read metadata as the models do."""
    readers: dict[object, Callable[[], object]] = {
        "qwen3-tts": lambda: TalkerFile.from_metadata(metadata, "f"),
        "qwen3-tts-tokenizer": lambda: CodecFile.from_metadata(metadata, "f"),
        "omnivoice-lm": lambda: OmniVoiceFile.from_metadata(metadata, "f"),
        "omnivoice-tokenizer": lambda: OmniVoiceCodecFile.from_metadata(metadata, tensors, "f"),
    }
    for reader in readers.values():
        only_clear_errors(reader)
    file_type_name(metadata)
    if "tokenizer.ggml.tokens" in metadata:
        only_clear_errors(lambda: TextTokenizer.from_metadata(metadata, source="f"))


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_metadata_of_any_kind(tiny_gguf: Gguf, name: str, data: st.DataObject) -> None:
    """Keys of the wrong type, out of range, or missing."""
    path = tiny_gguf(name)
    metadata = dict(metadata_of(path))
    keys = st.sampled_from(sorted(metadata))
    for key in data.draw(st.lists(keys, min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            metadata[key] = data.draw(ANY_VALUE)
        else:
            metadata.pop(key, None)
    describe(metadata, open_gguf(str(path)).names)


@cache
def metadata_of(path: Path) -> dict[str, Any]:
    """The keys of a file, read once for all examples; not to be changed."""
    return read_metadata(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux has them")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_allocated_that_the_file_does_not_hold(tiny_gguf: Gguf, tmp_path: Path, name: str) -> None:
    """Real files, damaged where their keys lie, read by a process that may not take more than they are large."""
    data, generator = tiny_gguf(name).read_bytes(), random.Random(name)
    paths = []
    for number in range(max(20, EXAMPLES // 8)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(mutate(data, list(random_mutations(generator, min(HEAD, len(data))))))
        paths.append(path)
    results = list(
        read_in_limited_process(
            Path(limited_reader.__file__), paths, megabytes=64, seconds=PATIENCE + EXAMPLES
        )
    )
    assert len(results) == len(paths)
    for result in results:
        assert result["kind"] in (None, "GgttsError"), result
        assert "\n" not in (result["error"] or "")
    assert any(result["error"] for result in results)


def random_mutations(generator: random.Random, size: int) -> Iterator[Mutation]:
    """A few mutations of the first `size` bytes."""
    for _ in range(generator.randint(1, 4)):
        kind = generator.choice(["flip", "flip", "byte", "drop", "repeat", "u32", "u64"])
        value = generator.choice([generator.randrange(256), generator.choice(HOSTILE_SIZES)])
        yield kind, generator.randrange(size), value


def test_values_of_every_bit_pattern(tmp_path: Path) -> None:
    """Blocks of random bits are read, whatever their scales are."""
    values = np.random.default_rng(5).integers(0, 256, 4096, dtype=np.uint8).tobytes()
    for kind in range(40):
        path = tmp_path / f"{kind}.gguf"
        path.write_bytes(gguf_bytes([], [(b"a", (256, 2), kind, 0)], values))
        if only_clear_errors(lambda path=path: read_all(path)):
            file = open_gguf(str(path))
            with suppress(FileError):  # a type that has no float form
                assert file.array("a").size == 512
