"""The .rvq file: bit order, test vectors of the C++ program, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ggtts.core.errors import AudioFileError, OutputError
from ggtts.core.formats import rvq

FRAME = [1221, 279, 2028, 717, 149, 753, 131, 1821, 1283, 1750, 1015, 109, 524, 997, 747, 111]
"""The first frame of freeman.rvq, an example of qwentts.cpp."""


def bits_of(data: bytes) -> str:
    """The stream as text, first bit first."""
    return "".join(format(byte, "08b")[::-1] for byte in data)


def test_codes_are_eleven_bits_with_the_lowest_first() -> None:
    bits = bits_of(rvq.pack(np.array([FRAME])))
    assert [int(bits[11 * i : 11 * i + 11][::-1], 2) for i in range(16)] == FRAME


def test_known_bytes() -> None:
    # 1221 = 0b10011000101 fills byte 0 and the low three bits of byte 1, 279 = 0b100010111 goes on from there.
    assert rvq.pack(np.array([FRAME]))[:3] == bytes([0b11000101, 0b10111100, 0b00001000])


def test_all_codes_of_a_codebook_come_first() -> None:
    codes = np.arange(32).reshape(2, 16)
    bits = bits_of(rvq.pack(codes))
    stream = [int(bits[11 * i : 11 * i + 11][::-1], 2) for i in range(32)]
    assert stream == [frame * 16 + book for book in range(16) for frame in range(2)]


@given(arrays(np.int32, st.tuples(st.integers(1, 40), st.just(16)), elements=st.integers(0, 2047)))
def test_round_trip(codes: np.ndarray) -> None:
    data = rvq.pack(codes)
    assert len(data) == 22 * len(codes)
    assert (rvq.unpack(data) == codes).all()


def test_eight_codebooks() -> None:
    codes = np.arange(24).reshape(3, 8)
    assert (rvq.unpack(rvq.pack(codes), 8) == codes).all()
    assert len(rvq.pack(codes)) == 33


@pytest.mark.parametrize("value", [0, 2047])
def test_extreme_codes(value: int) -> None:
    codes = np.full((5, 16), value)
    assert (rvq.unpack(rvq.pack(codes)) == codes).all()


@pytest.mark.parametrize("value", [-1, 2048])
def test_codes_that_do_not_fit(value: int) -> None:
    with pytest.raises(ValueError, match="0 to 2047"):
        rvq.pack(np.full((1, 16), value))


@pytest.mark.parametrize("size", [0, 1, 21, 24, 43, 46])
def test_ragged_data(tmp_path: Path, size: int) -> None:
    path = tmp_path / "codes.rvq"
    path.write_bytes(bytes(size))
    with pytest.raises(
        AudioFileError, match=rf"codes\.rvq is not a whole number of frames: {size} bytes.* multiple of 22$"
    ):
        rvq.read(path)


def test_one_byte_too_many_is_read_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "codes.rvq"
    codes = np.random.default_rng(2).integers(0, 2048, (3, 16))
    path.write_bytes(rvq.pack(codes) + b"\xff")
    assert (rvq.read(path) == codes).all()
    assert "codes.rvq ends with a byte that belongs to no code" in caplog.text


def test_file_round_trip(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 2048, (9, 16))
    rvq.write(tmp_path / "codes.rvq", codes)
    assert (rvq.read(tmp_path / "codes.rvq") == codes).all()


def test_codes_the_model_does_not_have(tmp_path: Path) -> None:
    rvq.write(tmp_path / "codes.rvq", np.full((2, 16), 300))
    assert rvq.read(tmp_path / "codes.rvq", codebook_size=301).max() == 300
    with pytest.raises(AudioFileError, match="holds code 300, the codebooks of this model have 256 entries"):
        rvq.read(tmp_path / "codes.rvq", codebook_size=256)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"cannot read .*none\.rvq"):
        rvq.read(tmp_path / "none.rvq")
    with pytest.raises(OutputError, match="cannot write"):
        rvq.write(tmp_path / "no folder" / "codes.rvq", np.zeros((1, 16), int))
