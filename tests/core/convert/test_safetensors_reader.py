"""Reading of safetensors: values, shards, and files that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.convert.safetensors_reader import Checkpoint, read_header, widen_bfloat16
from ggtts.core.errors import ModelFileError
from support.data import TALKERS
from support.safetensors_files import header_bytes, write_hollow, write_values


def test_every_bfloat16_widens_exactly() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    wide = widen_bfloat16(patterns)
    np.testing.assert_array_equal(wide.view(np.uint32), patterns.astype(np.uint32) << 16)


@pytest.mark.parametrize("name", TALKERS)
def test_values_equal_those_of_the_safetensors_package(tiny_checkpoint, name: str) -> None:
    """bfloat16 is compared bit by bit through the raw bytes, since NumPy has no such type."""
    from safetensors import deserialize

    folder = tiny_checkpoint(name)
    checkpoint = Checkpoint.open(folder)
    stored = dict(deserialize((folder / "model.safetensors").read_bytes()))
    assert {tensor.name for tensor in checkpoint} == set(stored)
    for key, entry in stored.items():
        assert entry["dtype"] == checkpoint[key].dtype == "BF16"
        assert tuple(entry["shape"]) == checkpoint[key].shape
        bits = np.frombuffer(bytes(entry["data"]), dtype=np.uint16).astype(np.uint32) << 16
        np.testing.assert_array_equal(checkpoint[key].read().view(np.uint32).ravel(), bits)


def test_float16_and_float32_and_row_blocks(tmp_path: Path) -> None:
    half = np.arange(12, dtype=np.float16).reshape(4, 3)
    single = np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2)
    write_values(tmp_path / "model.safetensors", {"half": ("F16", half), "single": ("F32", single)})
    checkpoint = Checkpoint.open(tmp_path)
    np.testing.assert_array_equal(checkpoint["half"].read(), half.astype(np.float32))
    np.testing.assert_array_equal(checkpoint["single"].rows(2, 4), single[2:4])
    assert checkpoint["half"].read().dtype == np.float32


def test_scalars_are_readable(tmp_path: Path) -> None:
    write_values(tmp_path / "model.safetensors", {"x": ("F32", np.array(2.5, dtype=np.float32))})
    assert Checkpoint.open(tmp_path)["x"].read() == np.float32(2.5)


def shard(folder: Path) -> dict[str, np.ndarray]:
    values = {f"t{i}": np.full((3, 2), i, dtype=np.float32) for i in range(4)}
    for number, names in enumerate((("t0", "t2"), ("t1", "t3")), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        write_values(folder / file, {name: ("F32", values[name]) for name in names})
    weight_map = {f"t{i}": f"model-0000{1 + i % 2}-of-00002.safetensors" for i in range(4)}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return values


def test_sharded_checkpoint(tmp_path: Path) -> None:
    values = shard(tmp_path)
    checkpoint = Checkpoint.open(tmp_path)
    assert [tensor.name for tensor in checkpoint] == ["t0", "t2", "t1", "t3"]
    for name, expected in values.items():
        np.testing.assert_array_equal(checkpoint[name].read(), expected)


def test_missing_shard_is_named(tmp_path: Path) -> None:
    shard(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model-00002-of-00002\.safetensors', which is missing"):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}']
)
def test_broken_index(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelFileError, match="is not a safetensors index"):
        Checkpoint.open(tmp_path)


def test_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="holds neither"):
        Checkpoint.open(tmp_path)


FOREIGN = {
    "empty": b"",
    "short": b"\x01\x02",
    "text": b"version https://git-lfs.github.com/spec/v1\n",
    "gguf": b"GGUF\x03\x00\x00\x00" + bytes(64),
    "not json": (16).to_bytes(8, "little") + b"x" * 16,
    "not a table": header_bytes([]),  # type: ignore[arg-type]
    "no offsets": header_bytes({"x": {"dtype": "F32", "shape": [2]}}),
    "unknown type": header_bytes({"x": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}),
    "wrong size": header_bytes({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}) + bytes(8),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.safetensors: ") as raised:
        read_header(path)
    assert "\n" not in str(raised.value)


def test_truncated_file_says_how_much_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_hollow(path, [("x", "F32", [4, 4])])
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 10)
    with pytest.raises(ModelFileError, match="truncated, tensor 'x' ends 10 bytes beyond"):
        Checkpoint.open(tmp_path)
