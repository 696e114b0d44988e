"""Recordings that clients send: decoded block by block, so that no file can claim more memory than it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from ..audio.reference import explained
from ..errors import AudioFileError

LONGEST_SECONDS = 60.0
"""Good references have 3 to 20 s; a recording of more is a mistake, or worse."""
_RATES = range(4_000, 192_001)
_MOST_CHANNELS = 16
_BLOCK_VALUES = int(LONGEST_SECONDS) * 48_000 * 2 + 2
"""Values decoded at once: all of a usual recording. MP3, which has no more, cannot be continued without a glitch."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Mono sound.

    Attributes:
        samples: float32 [n], full scale 1.
        sample_rate: in Hz.
    """

    samples: NDArray[np.float32]
    sample_rate: int


def read_upload(source: bytes | BinaryIO, longest: float = LONGEST_SECONDS) -> Recording:
    """Return what is in an audio file of any kind that libsndfile reads, its channels averaged.

    Raises:
        AudioFileError: it is no audio, of an unusual kind, or longer than `longest` seconds.
    """
    try:
        with soundfile.SoundFile(BytesIO(source) if isinstance(source, bytes) else source) as file:
            _require_usual(file.samplerate, file.channels)
            limit = int(longest * file.samplerate)
            # A length that a header states is only believed where it refuses the file; blocks are counted below.
            if file.frames < 1 << 62:
                require_short(file.frames / file.samplerate, longest)
            return Recording(_decoded(file, limit, longest), file.samplerate)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise AudioFileError(f"cannot read the recording as audio: {explained(error)}") from error


def require_short(seconds: float, longest: float = LONGEST_SECONDS) -> None:
    """Refuse a recording that is too long for a voice.

    Raises:
        AudioFileError: it is.
    """
    if seconds > longest:
        raise _too_long(seconds, longest)


def _decoded(file: soundfile.SoundFile, limit: int, longest: float) -> NDArray[np.float32]:
    at_once = _BLOCK_VALUES // file.channels
    blocks: list[NDArray[np.float32]] = []
    length = 0
    while True:
        block: NDArray[np.float32] = file.read(at_once, dtype="float32", always_2d=True)
        if not len(block):
            return np.concatenate([*blocks, np.zeros(0, np.float32)])
        length += len(block)
        if length > limit:
            raise _too_long(None, longest)
        blocks.append(block.mean(axis=1, dtype=np.float32))


def _require_usual(rate: int, channels: int) -> None:
    if rate not in _RATES:
        raise AudioFileError(
            f"the recording has {rate} samples a second: {_RATES[0]} to {_RATES[-1]} are accepted"
        )
    if channels > _MOST_CHANNELS:
        raise AudioFileError(f"the recording has {channels} channels: at most {_MOST_CHANNELS} are accepted")


def _too_long(seconds: float | None, longest: float) -> AudioFileError:
    length = "too long" if seconds is None else f"{seconds:.0f} s long"
    return AudioFileError(
        f"the recording is {length}: at most {longest:g} s are accepted, 3 to 20 s are best"
    )
