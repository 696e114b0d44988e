"""The .spk file: a speaker embedding as raw little-endian float32 values without a header, as in qwentts.cpp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import AudioFileError
from ..output_files import write_file

_VALUE = np.dtype("<f4")


def read(path: Path, width: int | None = None) -> NDArray[np.float32]:
    """Read a speaker embedding [width]; `width` is the size the model expects, None accepts any.

    Raises:
        AudioFileError: the file cannot be read, is empty, ragged or of another width, or holds NaN or infinity.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {path}: {error.strerror or error}") from error
    return parse(data, width, source=str(path))


def parse(data: bytes, width: int | None = None, *, source: str = "SPK data") -> NDArray[np.float32]:
    """Return the embedding in the bytes of a .spk file as `read` does; `source` names them in errors."""
    if not data or len(data) % _VALUE.itemsize:
        raise AudioFileError(
            f"{source} is not a speaker embedding: {len(data)} bytes, expected a positive multiple of {_VALUE.itemsize}"
        )
    embedding = np.frombuffer(data, _VALUE).astype(np.float32)
    if width is not None and len(embedding) != width:
        raise AudioFileError(
            f"{source} holds {len(embedding)} values, this model's speaker embeddings have {width}"
        )
    if not np.isfinite(embedding).all():
        raise AudioFileError(f"{source} is not a speaker embedding: it holds NaN or infinite values")
    return embedding


def write(path: Path, embedding: NDArray[np.floating]) -> None:
    """Write a speaker embedding [width] to a .spk file.

    Raises:
        ValueError: the embedding is not one vector.
        OutputError: the file cannot be written.
    """
    if embedding.ndim != 1 or not len(embedding):
        raise ValueError(f"a speaker embedding is one vector, not an array of shape {embedding.shape}")
    write_file(path, embedding.astype(_VALUE).tobytes())
