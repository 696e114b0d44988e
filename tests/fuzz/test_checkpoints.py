"""Damaged and hostile checkpoints: safetensors headers, config.json and tokenizer files of every kind of nonsense."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.convert import convert_folder, plan_folder
from ggtts.core.convert.config_reader import read_json
from ggtts.core.convert.safetensors_reader import INDEX_FILE, Checkpoint, read_header
from support.data import OMNIVOICE
from support.fuzzing import EXAMPLES, HOSTILE_SIZES, MUTATIONS, QUICK, Mutation, mutate, only_clear_errors

TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
# One line for each kind.
# fmt: off
VALUES: tuple[Any, ...] = (
    None, True, "", "text", "\ud800",
    [], {}, [1], [-1], ["a"], {"a": 1}, [0], [10**12], [1e999], [[[]]],
    0, 1, 2, 3, -1, 10**9, 2**31, 2**63, 10**30,
    0.5, 1e999, -1e999, float("nan"),
)
# fmt: on
"""What stands in the place of a value of a JSON file."""
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def safetensors(header: object, *, length: int | None = None) -> bytes:
    """A file with this header and 64 bytes of values; `length` is what it says of the header's length."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(64)


SOUND = safetensors(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "b": {"dtype": "BF16", "shape": [16], "data_offsets": [32, 64]},
    }
)


def read_tensors(path: Path) -> None:
    """What a file declares is what can be read of it."""
    for tensor in read_header(path):
        assert tensor.offset <= path.stat().st_size
        tensor.read()


@QUICK
@given(mutations=MUTATIONS)
def test_damaged_headers(tmp_path: Path, mutations: list[Mutation]) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(mutate(SOUND, mutations))
    only_clear_errors(lambda: read_tensors(path))


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.one_of(st.sampled_from(["F32", "BF16", "F64", "I64", "BOOL", "F8_E4M3"]), JSON),
        "shape": st.lists(
            st.one_of(st.sampled_from([*HOSTILE_SIZES, -1, 1e300, 1e999, "3"]), JSON), max_size=4
        ),
        "data_offsets": st.one_of(
            st.lists(st.one_of(st.sampled_from([*HOSTILE_SIZES, -8, 32, 64, 1e999]), JSON), max_size=3), JSON
        ),
    },
)


@QUICK
@given(header=st.one_of(JSON, st.dictionaries(st.text(max_size=4), st.one_of(ENTRY, JSON), max_size=4)))
def test_hostile_headers(tmp_path: Path, header: object) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors(header))
    only_clear_errors(lambda: read_tensors(path))


@pytest.mark.parametrize("size", HOSTILE_SIZES)
def test_hostile_header_lengths(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors({}, length=size % 2**64))
    only_clear_errors(lambda: read_tensors(path))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 100_000, "1" * 10_000, '"\\ud800"', "\ufeff{}", "{}{}", ""]
)
def test_json_that_is_hard_to_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    only_clear_errors(lambda: read_json(path))
    data = text.encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(data)) + data)
    only_clear_errors(lambda: read_tensors(tmp_path / "a.safetensors"))


def places(values: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested JSON, at most a few of a long list or table."""
    if isinstance(values, dict):
        items: list[tuple[Any, Any]] = list(values.items())
    elif isinstance(values, list):
        items = list(enumerate(values))
    else:
        return
    for key, value in items[:40]:
        yield (*path, key)
        yield from places(value, (*path, key))


def with_value(values: Any, place: tuple[Any, ...], value: object) -> Any:
    """A copy of nested JSON with another value at a place."""
    copy = json.loads(json.dumps(values))
    target = copy
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return copy


@pytest.fixture
def copied(tiny_checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """`copied("NAME/FOLDER")` is a copy of a checkpoint, or of a folder in it, that may be damaged."""

    def copy(name: str) -> Path:
        folder, part = tiny_checkpoint(name.partition("/")[0]), name.partition("/")[2]
        return Path(shutil.copytree(folder / part, tmp_path / "model"))

    return copy


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (TALKER, "config.json"),
        (TALKER, "generation_config.json"),
        (TALKER, "vocab.json"),
        (TALKER, "tokenizer_config.json"),
        (f"{TALKER}/speech_tokenizer", "config.json"),
        (OMNIVOICE, "config.json"),
        (OMNIVOICE, "tokenizer.json"),
        (f"{OMNIVOICE}/audio_tokenizer", "config.json"),
    ],
)
def test_every_value_replaced(copied: Callable[[str], Path], tmp_path: Path, name: str, file: str) -> None:
    """The plan is made, or the one value is named; what can be planned can be written."""
    folder = copied(name)
    values = json.loads((folder / file).read_text("utf-8"))
    cases = [(place, value) for place in places(values) for value in VALUES]
    step = max(1, len(cases) // (2 * EXAMPLES))
    planned = 0
    for place, value in cases[::step]:
        (folder / file).write_text(json.dumps(with_value(values, place, value)))
        if only_clear_errors(lambda: plan_folder(folder)):
            planned += 1
            if planned % 10 == 1:
                only_clear_errors(lambda: convert_folder(folder, tmp_path / "out.gguf", "f16"))


@QUICK
@given(
    index=st.one_of(
        JSON, st.fixed_dictionaries({"weight_map": st.dictionaries(st.text(max_size=3), JSON, max_size=3)})
    )
)
def test_hostile_indices(tmp_path: Path, index: object) -> None:
    """The list of the files of a checkpoint in parts."""
    (tmp_path / INDEX_FILE).write_text(json.dumps(index))
    assert not only_clear_errors(lambda: Checkpoint.open(tmp_path))


@pytest.mark.parametrize("name", [TALKER, OMNIVOICE])
def test_damaged_checkpoints(copied: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    folder = copied(name)
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        data = path.read_bytes()
        for content in (b"", b"\0", b"\xff\xfe", data[: len(data) // 2], data[1:], b"{}", b"[]", b"null"):
            path.write_bytes(content)
            only_clear_errors(lambda: plan_folder(folder))
        path.unlink()
        only_clear_errors(lambda: plan_folder(folder))
        path.write_bytes(data)
    only_clear_errors(lambda: convert_folder(folder, tmp_path / "out.gguf"))
