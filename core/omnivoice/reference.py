"""A reference recording as OmniVoice wants it (the audio part of create_voice_clone_prompt of the official package).

Mono, resampled, raised when it is quiet, long silences and silent ends cut, whole codec frames. The loudness it had
before goes with it: speech made from it is as loud.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..audio.levels import raise_quiet, rms
from ..audio.reference import ReferenceLimits, read_recording, usable_samples
from ..audio.silence import REFERENCE_SILENCE, remove_silence, through_int16
from ..audio.sinc_resample import sinc_resample
from ..errors import AudioFileError
from .text_chunks import add_punctuation

_LOGGER = logging.getLogger(__name__)

REFERENCE_LIMITS = ReferenceLimits(shortest=0.5, longest=600.0)
"""A syllable or two is no voice to go by. A transcript covers all of its recording, so nothing is cut off for being
merely too long to be good."""
_LONGEST_GOOD_SECONDS = 20.0


@dataclass(frozen=True)
class ReferenceAudio:
    """A recording ready for the codec."""

    samples: NDArray[np.float32]
    """Mono [n], n a multiple of the codec's hop."""
    rms: float
    """Of the whole recording as it was."""


def load_reference(
    source: Path | BinaryIO | tuple[NDArray[Any], int],
    sample_rate: int,
    *,
    limits: ReferenceLimits = REFERENCE_LIMITS,
    name: str | None = None,
) -> NDArray[np.float32]:
    """Return a recording as mono samples float32 [n] at `sample_rate`, otherwise as it is.

    Args:
        source: a file, or samples [n] or [n, channels] with their rate.
        sample_rate: of the codec, in Hz.
        limits: what is usable.
        name: what errors call the recording.

    Raises:
        AudioFileError: it cannot be read, is too short or silent, or holds NaN or infinite samples.
    """
    if isinstance(source, tuple):
        samples, rate = source
        mono = usable_samples(samples, rate, limits=limits, name=name or "the recording")
    else:
        mono, rate = read_recording(source, limits=limits, name=name)
    return sinc_resample(mono, rate, sample_rate)


def prepare_reference(
    samples: NDArray[np.float32],
    sample_rate: int,
    hop: int,
    *,
    cut_silence: bool = True,
    name: str = "the recording",
) -> ReferenceAudio:
    """Return a loaded recording ready for the codec.

    Args:
        samples: mono [n] at the rate of the codec.
        sample_rate: in Hz.
        hop: samples per frame of the codec.
        cut_silence: False leaves silence as it is (`--no-preprocess-prompt`).
        name: what errors and warnings call the recording.

    Raises:
        AudioFileError: nothing is left of it.
    """
    level = rms(samples)
    prepared = raise_quiet(samples, level)
    if cut_silence:
        prepared = through_int16(remove_silence(prepared, sample_rate, REFERENCE_SILENCE))
    whole = whole_frames(prepared, hop)
    if not len(whole):
        hint = "; try without preprocessing it" if cut_silence and len(samples) >= hop else ""
        raise AudioFileError(
            f"{name}: {len(prepared) / sample_rate:.3f} s of speech in it,"
            f" at least {hop / sample_rate:g} s are needed{hint}"
        )
    if len(prepared) > _LONGEST_GOOD_SECONDS * sample_rate:
        _LOGGER.warning(
            "%s is %.1f s long: a reference of 3 to 10 s is faster, and gives a better voice",
            name,
            len(prepared) / sample_rate,
        )
    return ReferenceAudio(whole, level)


def whole_frames(samples: NDArray[np.float32], hop: int) -> NDArray[np.float32]:
    """Return samples [n] without the part of a frame at their end."""
    return samples[: len(samples) // hop * hop]


def prepare_transcript(text: str, *, preprocess: bool = True) -> str:
    """Return the transcript of a reference as the prompt has it: with punctuation at its end, unless told not to."""
    return add_punctuation(text) if preprocess else text
