"""WAV headers and sample codings.

One 44-byte RIFF header for every format, without extensions; sizes are exact in a file and 0x7FFFFFFF on a pipe.
In a file, an odd number of bytes of data is followed by one that counts for the file and not for the data. A file that
outgrows RIFF's 32-bit sizes becomes RF64 (EBU Tech 3306).
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from ... import _native
from .formats import F32, SampleCoding

HEADER_SIZE = 44
RF64_EXTRA_SIZE = 36
"""How much longer the RF64 header is: one ds64 chunk."""
STREAM_SIZE = 0x7FFFFFFF
"""The size in the header of a stream whose end is not known."""
LARGEST_RIFF = 0xFFFFFFFF
"""The largest value that the size fields of a RIFF header hold."""
_PCM, _FLOAT = 1, 3


def encode_samples(samples: NDArray[np.floating], coding: SampleCoding) -> bytes:
    """Return samples [n] as little-endian bytes.

    NaN and infinities become silence. Integers are rounded to nearest and clipped at full scale (1.0 is the
    largest integer); floats are kept as they are, beyond full scale too.
    """
    if coding == F32:
        return finite(samples).astype("<f4").tobytes()
    return _native.encode_integers(_mono(samples), coding.bits)


def finite(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return samples [n] as float32, NaN and infinities as silence.

    Raises:
        ValueError: the samples have more than one dimension.
    """
    mono = _mono(samples)
    return np.where(np.isfinite(mono), mono, np.float32(0))


def _mono(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    if samples.ndim != 1:
        raise ValueError(f"expected mono samples [n], got shape {samples.shape}")
    return np.ascontiguousarray(samples, dtype=np.float32)


def stream_header(coding: SampleCoding, sample_rate: int) -> bytes:
    """Return the 44-byte header of a mono stream whose length is not known."""
    return b"".join(
        (
            struct.pack("<4sI4s", b"RIFF", STREAM_SIZE, b"WAVE"),
            _format_chunk(coding, sample_rate),
            struct.pack("<4sI", b"data", STREAM_SIZE),
        )
    )


def file_header(
    coding: SampleCoding, sample_rate: int, samples: int, *, largest_riff: int = LARGEST_RIFF
) -> bytes:
    """Return the header of a mono file of `samples` samples: 44 bytes, or 80 when only RF64 can hold it."""
    data_size = samples * coding.size
    riff_size = HEADER_SIZE - 8 + data_size + len(file_end(coding, samples))
    if riff_size <= largest_riff:
        return b"".join(
            (
                struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE"),
                _format_chunk(coding, sample_rate),
                struct.pack("<4sI", b"data", data_size),
            )
        )
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, riff_size + RF64_EXTRA_SIZE, data_size, samples, 0)
    return b"".join(
        (
            struct.pack("<4sI4s", b"RF64", 0xFFFFFFFF, b"WAVE"),
            sizes,
            _format_chunk(coding, sample_rate),
            struct.pack("<4sI", b"data", 0xFFFFFFFF),
        )
    )


def file_end(coding: SampleCoding, samples: int) -> bytes:
    """Return what follows `samples` samples in a WAV file: chunks are of even length (RIFF), 24-bit samples may not be.

    A stream has no such end: its header gives no length, and all that comes is samples.
    """
    return bytes(samples * coding.size % 2)


def _format_chunk(coding: SampleCoding, sample_rate: int) -> bytes:
    tag = _FLOAT if coding.kind == "float" else _PCM
    return struct.pack(
        "<4sIHHIIHH", b"fmt ", 16, tag, 1, sample_rate, sample_rate * coding.size, coding.size, coding.bits
    )
