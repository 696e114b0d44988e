"""Reference recordings: any file that libsndfile reads becomes mono samples at the rate of the model.

Channels are averaged first and the result is resampled with soxr HQ, exactly as librosa.load(mono=True) and
librosa.resample do in the official Qwen3-TTS package.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import AudioFileError

if TYPE_CHECKING:
    import soundfile

_LOGGER = logging.getLogger(__name__)

RATES = range(1_000, 1_000_001)
"""In Hz. Beyond them no recording is real, and resampling takes more memory and time than anybody has."""
BLOCK_SAMPLES = 2**18
"""Of all channels together, that are read at once."""
_UNKNOWN_FORMAT = 1
"""SF_ERR_UNRECOGNISED_FORMAT of libsndfile."""


@dataclass(frozen=True)
class ReferenceLimits:
    """What makes a recording usable as a reference."""

    shortest: float = 0.12
    """Seconds below which there is no voice to hear."""
    longest: float = 60.0
    """Seconds after which a recording is cut."""
    silence: float = 1e-4
    """Peak, as a part of full scale, below which a recording is silent (-80 dB)."""


DEFAULT_LIMITS = ReferenceLimits()


def read_reference(
    source: Path | BinaryIO,
    sample_rate: int,
    *,
    limits: ReferenceLimits = DEFAULT_LIMITS,
    name: str | None = None,
) -> NDArray[np.float32]:
    """Read a recording as mono samples float32 [n] at `sample_rate`; `name` is what errors call it.

    A recording longer than the limit is cut, with a warning in the log.

    Raises:
        AudioFileError: the file cannot be read, is too short or silent, has a rate beyond `RATES`, or holds NaN or
            infinite samples.
    """
    samples, rate = read_recording(source, limits=limits, name=name)
    return resample(samples, rate, sample_rate)


def read_recording(
    source: Path | BinaryIO, *, limits: ReferenceLimits = DEFAULT_LIMITS, name: str | None = None
) -> tuple[NDArray[np.float32], int]:
    """Read a recording as mono samples float32 [n] at its own rate, which is returned too; see `read_reference`.

    Raises:
        AudioFileError: see `read_reference`.
    """
    label = name or (str(source) if isinstance(source, Path) else "the recording")
    channels, rate, cut = _read(source, limits.longest, label)
    if cut:
        _warn_of_cut(label, limits)
    return _usable(channels, rate, limits, label), rate


def usable_samples(
    samples: NDArray[Any],
    rate: int,
    *,
    limits: ReferenceLimits = DEFAULT_LIMITS,
    name: str = "the recording",
) -> NDArray[np.float32]:
    """Return samples [n] or [n, channels] at `rate` Hz as mono float32 [n], held to the same limits as a file.

    Integers are parts of the largest of their type, as libsndfile reads them: int16 16384 is 0.5, and unsigned bytes
    are silent at 128.

    Raises:
        AudioFileError: the array is of another kind, too short or silent, or holds NaN or infinity.
    """
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "fiu" or rate < 1:
        raise AudioFileError(
            f"{name} cannot be audio: {samples.dtype} of shape {samples.shape} at {rate} Hz;"
            " expected numbers [n] or [n, channels]"
        )
    longest = int(limits.longest * rate)
    if len(samples) > longest:
        _warn_of_cut(name, limits)
    channels = _floats(samples[:longest] if samples.ndim == 2 else samples[:longest, None])
    return _usable(channels, rate, limits, name)


def resample(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    """Resample mono samples [n] from `rate` to `wanted` Hz with soxr HQ, to ceil(n * wanted / rate) samples."""
    if rate == wanted:
        return samples
    import soxr  # only now, like soundfile below: most runs read no recording, and have a listener waiting

    ratio = float(wanted) / rate
    # In floating point, as librosa computes it: a ratio just above the exact one gives a sample more.
    length = math.ceil(len(samples) * ratio)
    converted = soxr.resample(samples, rate, wanted, quality="HQ")[:length]
    return np.pad(converted, (0, length - len(converted)))


def _warn_of_cut(label: str, limits: ReferenceLimits) -> None:
    _LOGGER.warning("%s is longer than %g s: only its beginning is used", label, limits.longest)


def _floats(samples: NDArray[Any]) -> NDArray[np.float32]:
    if samples.dtype.kind == "f":
        return samples.astype(np.float32, copy=False)
    full_scale = 2.0 ** (8 * samples.dtype.itemsize - 1)
    silence = full_scale if samples.dtype.kind == "u" else 0.0
    return ((samples - silence) / full_scale).astype(np.float32)


def _read(source: Path | BinaryIO, longest: float, label: str) -> tuple[NDArray[np.float32], int, bool]:
    """Samples [n, channels] of at most `longest` seconds, their rate, and whether there were more."""
    import soundfile

    try:
        with soundfile.SoundFile(_openable(source)) as file:
            limit = int(longest * file.samplerate)
            samples = _frames(file, limit + 1)
            return samples[:limit], file.samplerate, len(samples) > limit
    except (OSError, RuntimeError, TypeError) as error:
        raise AudioFileError(f"cannot read {label} as audio: {_reason(source, error)}") from error


def _frames(file: soundfile.SoundFile, most: int) -> NDArray[np.float32]:
    """Read so many frames [n, channels] at most, piece by piece: what a header says of the length may be a lie."""
    step = max(1, BLOCK_SAMPLES // file.channels)
    blocks, left = [np.empty((0, file.channels), np.float32)], most
    while left > 0:
        block = file.read(min(step, left), dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block)
        left -= len(block)
    return np.concatenate(blocks)


def _openable(source: Path | BinaryIO) -> bytes | BinaryIO:
    """Most containers are read back and forth, so what comes through a named pipe is read to its end first.

    A name goes to libsndfile as bytes, for not every name is text.
    """
    if not isinstance(source, Path):
        return source
    return BytesIO(source.read_bytes()) if source.is_fifo() else os.fsencode(source)


def _reason(source: Path | BinaryIO, error: Exception) -> str:
    """One line of explanation; libsndfile reports a missing file as a system error without saying which."""
    if isinstance(source, Path) and not source.is_fifo():
        try:
            with source.open("rb") as file:
                if not file.read(1):
                    return "the file is empty"
        except OSError as reason:
            return reason.strerror or str(reason)
    return explained(error)


def explained(error: Exception) -> str:
    """Return what libsndfile says of a file, in one line without a full stop; and what it would read."""
    if isinstance(
        error, TypeError
    ):  # soundfile asks for the rate of what it takes for samples by its name, .raw
        return (
            "samples without a header do not say their rate (ffmpeg -f s16le -ar RATE -i IN OUT.wav adds one)"
        )
    reason = str(getattr(error, "error_string", error)).strip().rstrip(".")
    if getattr(error, "code", None) == _UNKNOWN_FORMAT:
        reason += " (WAV, FLAC, MP3, Ogg, Opus, AIFF and others are; ffmpeg -i IN OUT.wav converts the rest)"
    return reason


def _usable(
    channels: NDArray[np.float32], rate: int, limits: ReferenceLimits, label: str
) -> NDArray[np.float32]:
    """Average channels [n, channels] to mono [n], and refuse what has no voice in it.

    The average is what is judged: channels of opposite sign cancel each other out.
    """
    if not RATES[0] <= rate <= RATES[-1]:
        raise AudioFileError(f"{label} has {rate} samples a second: {RATES[0]} to {RATES[-1]} are accepted")
    seconds = len(channels) / rate
    if seconds < limits.shortest:
        raise AudioFileError(
            f"{label} is too short: {seconds:.3f} s, at least {limits.shortest:g} s are needed"
        )
    mono: NDArray[np.float32] = channels.mean(axis=1, dtype=np.float32)
    if not np.isfinite(mono).all():
        raise AudioFileError(f"{label} holds NaN or infinite samples")
    if np.abs(mono).max() < limits.silence:
        raise AudioFileError(f"{label} is silent: its peak is below {20 * math.log10(limits.silence):.0f} dB")
    return mono
