"""The dump format byte for byte."""

import struct
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.errors import OutputError
from ggtts.core.formats.dump import read_dump, write_dump


def test_layout(tmp_path: Path) -> None:
    write_dump(tmp_path / "new" / "folder", "codes", np.array([[1, 2, 3], [4, 5, 6]]))
    data = (tmp_path / "new" / "folder" / "codes.bin").read_bytes()
    assert data == struct.pack("<iii6f", 2, 2, 3, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 2, 3)])
def test_round_trip(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    write_dump(tmp_path, "x", values.T)
    assert np.array_equal(read_dump(tmp_path / "x.bin"), values.T)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot make folder '.*file'"):
        write_dump(tmp_path / "file", "x", np.zeros(1))
