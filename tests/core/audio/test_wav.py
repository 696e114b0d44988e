"""WAV headers byte for byte, and how samples are rounded."""

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ggtts.core.audio import wav
from ggtts.core.audio.formats import F32, S16, S24, SampleCoding

HEADERS = {S16: (1, 16), S24: (1, 24), F32: (3, 32)}


@pytest.mark.parametrize("coding", HEADERS)
@pytest.mark.parametrize("samples", [0, 1, 1920])
def test_file_header(coding: SampleCoding, samples: int) -> None:
    tag, bits = HEADERS[coding]
    size = samples * bits // 8
    riff = 36 + size + size % 2
    expected = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, tag, 1, 24000, 24000 * bits // 8, bits // 8,
        bits, b"data", size,
    )  # fmt: skip
    assert wav.file_header(coding, 24000, samples) == expected
    assert len(expected) == wav.HEADER_SIZE


@pytest.mark.parametrize("coding", HEADERS)
def test_stream_header_has_the_size_of_an_endless_stream(coding: SampleCoding) -> None:
    header = wav.stream_header(coding, 24000)
    assert len(header) == wav.HEADER_SIZE
    assert header[4:8] == header[40:44] == struct.pack("<I", 0x7FFFFFFF)
    assert header[8:40] == wav.file_header(coding, 24000, 7)[8:40]


def test_a_file_that_outgrows_riff_is_rf64() -> None:
    largest = (0xFFFFFFFF - 36) // 2
    assert len(wav.file_header(S16, 24000, largest)) == 44
    samples = largest + 1
    header = wav.file_header(S16, 24000, samples)
    assert len(header) == 80
    assert struct.unpack_from("<4sI4s4sIQQQI", header) == (
        b"RF64", 0xFFFFFFFF, b"WAVE", b"ds64", 28, 72 + 2 * samples, 2 * samples, samples, 0
    )  # fmt: skip
    assert header[48:72] == wav.file_header(S16, 24000, 1)[12:36]
    assert header[72:] == b"data\xff\xff\xff\xff"


@pytest.mark.parametrize(("coding", "samples"), [(S16, 7), (S24, 7), (S24, 8), (F32, 7)])
def test_the_data_of_a_file_ends_on_an_even_byte(coding: SampleCoding, samples: int) -> None:
    size = samples * coding.size
    end = wav.file_end(coding, samples)
    assert end == bytes(size % 2)
    plain, rf64 = (wav.file_header(coding, 24000, samples, largest_riff=most) for most in (1000, 0))
    assert struct.unpack_from("<I", plain, 4) == (len(plain) + size + len(end) - 8,)
    assert struct.unpack_from("<I", plain, 40) == (size,)
    assert struct.unpack_from("<QQQ", rf64, 20) == (len(rf64) + size + len(end) - 8, size, samples)


def test_a_chunk_behind_an_odd_number_of_bytes_is_found() -> None:
    """`title` as other programs add it, where the RIFF size says that the file ends."""
    header = bytearray(wav.file_header(S24, 24000, 3))
    title = b"LIST" + struct.pack("<I", 16) + b"INFOINAM" + struct.pack("<I", 4) + b"tone"
    struct.pack_into("<I", header, 4, struct.unpack_from("<I", header, 4)[0] + len(title))
    data = wav.encode_samples(np.full(3, 0.5, np.float32), S24) + wav.file_end(S24, 3)
    with soundfile.SoundFile(io.BytesIO(bytes(header) + data + title)) as file:
        assert (file.frames, file.title) == (3, "tone")


@given(
    samples=arrays(np.float32, st.integers(0, 70), elements=st.floats(-1.5, 1.5, width=32)),
    coding=st.sampled_from([S16, S24]),
)
def test_integers_are_what_double_precision_makes_of_samples(
    samples: np.ndarray, coding: SampleCoding
) -> None:
    full_scale = 2 ** (coding.bits - 1) - 1
    expected = np.rint(np.clip(samples, -1, 1).astype(np.float64) * full_scale).astype(int)
    assert decode(wav.encode_samples(samples, coding), coding.size).tolist() == expected.tolist()


def test_integers_are_rounded_to_nearest() -> None:
    steps = np.array([0.4, 0.6, -0.4, -0.6, 100.49, -100.51, 32766.6], np.float32)
    assert decode(wav.encode_samples(steps / np.float32(32767), S16), 2).tolist() == [
        0,
        1,
        0,
        -1,
        100,
        -101,
        32767,
    ]


@pytest.mark.parametrize("coding", [S16, S24])
def test_full_scale_clips_and_never_wraps(coding: SampleCoding) -> None:
    top = 2 ** (coding.bits - 1) - 1
    loud = np.array([1.0, -1.0, 1.5, -1.5, 3e38, -3e38, np.nextafter(1, 2, dtype=np.float32)], np.float32)
    assert decode(wav.encode_samples(loud, coding), coding.size).tolist() == [top, -top] * 3 + [top]


@pytest.mark.parametrize("coding", HEADERS)
def test_what_is_no_number_is_silence(coding: SampleCoding) -> None:
    data = wav.encode_samples(np.array([np.nan, np.inf, -np.inf], np.float32), coding)
    assert data == bytes(3 * coding.size)


def test_float_samples_are_kept_beyond_full_scale() -> None:
    samples = np.array([0.1, -2.5], np.float32)
    assert wav.encode_samples(samples, F32) == samples.astype("<f4").tobytes()


def test_other_float_types_and_strides() -> None:
    samples = np.linspace(-1, 1, 100)
    assert wav.encode_samples(samples[::2], S16) == wav.encode_samples(
        samples[::2].astype(np.float32).copy(), S16
    )


def test_stereo_is_refused() -> None:
    with pytest.raises(ValueError, match="mono"):
        wav.encode_samples(np.zeros((2, 3), np.float32), S16)


@pytest.mark.parametrize(("coding", "subtype"), [(S16, "PCM_16"), (S24, "PCM_24"), (F32, "FLOAT")])
@given(samples=arrays(np.float32, st.integers(1, 50), elements=st.floats(-1, 1, width=32)))
def test_libsndfile_reads_what_was_written(coding: SampleCoding, subtype: str, samples: np.ndarray) -> None:
    data = wav.file_header(coding, 24000, samples.size) + wav.encode_samples(samples, coding)
    data += wav.file_end(coding, samples.size)
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        assert (file.subtype, file.samplerate, file.channels, file.frames) == (
            subtype,
            24000,
            1,
            samples.size,
        )
        assert file.read(dtype="float64") == pytest.approx(
            samples, abs=1.51 / 2 ** (min(coding.bits, 24) - 1)
        )


def decode(data: bytes, size: int) -> np.ndarray:
    """Little-endian signed integers of any size."""
    rows = [data[start : start + size] for start in range(0, len(data), size)]
    return np.array([int.from_bytes(row, "little", signed=True) for row in rows])
