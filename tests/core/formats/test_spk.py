"""The .spk file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggtts.core.errors import AudioFileError, OutputError
from ggtts.core.formats import spk

EMBEDDING = np.array([0.09835664, -0.02376423, -0.01181425, 0.00676428], np.float32)
"""The first values of freeman.spk, an example of qwentts.cpp."""


def test_raw_little_endian_float32(tmp_path: Path) -> None:
    path = tmp_path / "voice.spk"
    spk.write(path, EMBEDDING)
    assert path.read_bytes() == EMBEDDING.astype("<f4").tobytes()
    assert (spk.read(path, 4) == EMBEDDING).all()
    assert (spk.read(path) == EMBEDDING).all()


@pytest.mark.parametrize("size", [0, 3, 7])
def test_ragged_data(tmp_path: Path, size: int) -> None:
    path = tmp_path / "voice.spk"
    path.write_bytes(bytes(size))
    with pytest.raises(AudioFileError, match=f"{size} bytes, expected a positive multiple of 4"):
        spk.read(path)


def test_another_width(tmp_path: Path) -> None:
    spk.write(tmp_path / "voice.spk", EMBEDDING)
    with pytest.raises(AudioFileError, match=r"holds 4 values, this model's speaker embeddings have 1024"):
        spk.read(tmp_path / "voice.spk", 1024)


def test_not_a_number(tmp_path: Path) -> None:
    (tmp_path / "voice.spk").write_bytes(np.array([1, np.nan], "<f4").tobytes())
    with pytest.raises(AudioFileError, match="NaN or infinite"):
        spk.read(tmp_path / "voice.spk")


def test_not_a_vector(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one vector"):
        spk.write(tmp_path / "voice.spk", np.zeros((2, 3), np.float32))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match="cannot read"):
        spk.read(tmp_path / "none.spk")
    with pytest.raises(OutputError, match="cannot write"):
        spk.write(tmp_path / "no folder" / "voice.spk", EMBEDDING)
