"""The .rvq file: codec codes as a headerless stream of 11-bit numbers, as qwentts.cpp reads and writes them.

Code i occupies bits 11 i to 11 i + 10 of the stream, least significant bit first in every byte; all codes of codebook 0
come first, then all of codebook 1, and so on. 16 codes of 11 bits are 22 bytes exactly, so a file of n frames has
22 n bytes.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import AudioFileError
from ..output_files import write_file

_LOGGER = logging.getLogger(__name__)

BITS = 11
CODEBOOKS = 16


def pack(codes: NDArray[np.integer]) -> bytes:
    """Pack codes [frames, codebooks] into the bytes of a .rvq file.

    Raises:
        ValueError: codes is not two-dimensional, or holds a number outside 0..2047.
    """
    if codes.ndim != 2:
        raise ValueError(f"codes have {codes.ndim} axes, expected [frames, codebooks]")
    if codes.size and not 0 <= codes.min() <= codes.max() < 1 << BITS:
        raise ValueError(
            f"codes range from {codes.min()} to {codes.max()}, a .rvq file holds 0 to {(1 << BITS) - 1}"
        )
    stream = codes.T.reshape(-1, 1).astype(np.uint16)
    bits = (stream >> np.arange(BITS, dtype=np.uint16)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, codebooks: int = CODEBOOKS, *, source: str = "RVQ data") -> NDArray[np.int32]:
    """Unpack the bytes of a .rvq file into codes [frames, codebooks]; `source` names them in errors.

    One byte too many holds no code. qwentts.cpp reads over it, and so does this, with a warning in the log.

    Raises:
        AudioFileError: there are no codes, or the bytes are not those of a whole number of frames.
    """
    count = 8 * len(data) // BITS
    if count == 0 or count % codebooks:
        raise AudioFileError(
            f"{source} is not a whole number of frames: {len(data)} bytes,"
            f" a .rvq file has a positive multiple of {codebooks * BITS / 8:g}"
        )
    if len(data) > -(-count * BITS // 8):
        _LOGGER.warning("%s ends with a byte that belongs to no code: it is ignored", source)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count * BITS, bitorder="little")
    weights = (1 << np.arange(BITS)).astype(np.int32)
    codes = bits.reshape(count, BITS).astype(np.int32) @ weights
    return np.ascontiguousarray(codes.reshape(codebooks, -1).T)


def read(path: Path, codebooks: int = CODEBOOKS, codebook_size: int | None = None) -> NDArray[np.int32]:
    """Read codes [frames, codebooks] from a .rvq file.

    `codebook_size` is how many entries the codebooks of the model have: 11 bits may say more.

    Raises:
        AudioFileError: the file cannot be read, is empty or ragged, or holds codes that the model does not have.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {path}: {error.strerror or error}") from error
    return parse(data, codebooks, codebook_size, source=str(path))


def parse(
    data: bytes,
    codebooks: int = CODEBOOKS,
    codebook_size: int | None = None,
    *,
    source: str = "RVQ data",
) -> NDArray[np.int32]:
    """Unpack the bytes of a .rvq file as `read` does."""
    codes = unpack(data, codebooks, source=source)
    if codebook_size is not None and codes.max() >= codebook_size:
        raise AudioFileError(
            f"{source} holds code {codes.max()}, the codebooks of this model have {codebook_size} entries"
        )
    return codes


def write(path: Path, codes: NDArray[np.integer]) -> None:
    """Write codes [frames, codebooks] to a .rvq file.

    Raises:
        OutputError: the file cannot be written.
    """
    write_file(path, pack(codes))
