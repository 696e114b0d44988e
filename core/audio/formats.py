"""The audio formats that ggtts writes, and how one is chosen from a name or a file ending.

Light on purpose: commands read the names for their help text, so nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError
from ..parameters import AUDIO_FORMAT

STANDARD_STREAM = "-"
"""The output name that stands for standard output."""


@dataclass(frozen=True)
class SampleCoding:
    """How one sample is stored, little-endian."""

    kind: Literal["integer", "float"]
    bits: int

    @property
    def size(self) -> int:
        """Bytes of one sample."""
        return self.bits // 8


S16 = SampleCoding("integer", 16)
S24 = SampleCoding("integer", 24)
F32 = SampleCoding("float", 32)


class Container(Enum):
    """What surrounds the samples."""

    WAV = "wav"
    RAW = "raw"
    ENCODED = "encoded"
    """Compressed by libsndfile."""


@dataclass(frozen=True)
class AudioFormat:
    """A format by the name that `--format` takes."""

    name: str
    container: Container
    suffixes: tuple[str, ...]
    coding: SampleCoding = S16
    """For encoded formats: the depth that goes into the encoder."""
    library_format: str = ""
    library_subtype: str = ""
    encoder_options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """How libsndfile encodes, where its own choice does not do."""


_STEADY_MP3 = {"bitrate_mode": "CONSTANT", "compression_level": 0.3}
"""112 kbit/s at 24 kHz. Players guess the length of a stream from its bit rate, so it must not vary."""

WAV16 = AudioFormat("wav16", Container.WAV, (".wav",), S16)
_FORMATS = (
    WAV16,
    AudioFormat("wav24", Container.WAV, (".wav",), S24),
    AudioFormat("wav32", Container.WAV, (".wav",), F32),
    AudioFormat("flac", Container.ENCODED, (".flac",), S24, "FLAC", "PCM_24"),
    AudioFormat("mp3", Container.ENCODED, (".mp3",), S16, "MP3", "MPEG_LAYER_III", _STEADY_MP3),
    AudioFormat("ogg", Container.ENCODED, (".ogg", ".oga"), S16, "OGG", "VORBIS"),
    AudioFormat("opus", Container.ENCODED, (".opus",), S16, "OGG", "OPUS"),
    AudioFormat("s16", Container.RAW, (".raw", ".pcm", ".s16"), S16),
    AudioFormat("s24", Container.RAW, (".raw", ".pcm", ".s24"), S24),
    AudioFormat("f32", Container.RAW, (".raw", ".pcm", ".f32"), F32),
)
FORMATS: dict[str, AudioFormat] = {"wav": WAV16} | {kind.name: kind for kind in _FORMATS}
"""Formats by every name that is accepted: "wav" is the usual one, of 16 bits."""


def refuse_nameless(output: str) -> None:
    """Make sure that an output is named: a variable of a shell that nobody has set is an empty name.

    Raises:
        UsageError: the name is empty.
    """
    if not output.strip():
        raise UsageError("the output has no name: name a file, or - for standard output")


def choose_format(output: str, name: str | None = None) -> AudioFormat:
    """Return the format of `output`: the one named, else the one of its file ending, else 16-bit WAV.

    Raises:
        UsageError: an unknown name, a name that contradicts the file ending, or an ending that says nothing known.
    """
    if name is not None and name not in FORMATS:
        raise UsageError(f"unknown audio format {name!r} (accepted: {', '.join(FORMATS)})")
    suffix = "" if output == STANDARD_STREAM else Path(output).suffix.lower()
    matching = [audio_format for audio_format in _FORMATS if suffix in audio_format.suffixes]
    if name is None:
        return _by_suffix(output, suffix, matching)
    chosen = FORMATS[name]
    if matching and chosen not in matching:
        names = ", ".join(audio_format.name for audio_format in matching)
        raise UsageError(
            f"format {name} does not belong in a {suffix} file: {output!r} ({suffix} takes: {names})"
        )
    return chosen


def _by_suffix(output: str, suffix: str, matching: list[AudioFormat]) -> AudioFormat:
    if matching:
        return matching[0]
    if not suffix:
        return WAV16
    endings = sorted({ending for audio_format in _FORMATS for ending in audio_format.suffixes})
    raise UsageError(
        f"no audio format is known for the ending {suffix!r} of {output!r} (accepted: {' '.join(endings)}; "
        f"or name one with {AUDIO_FORMAT}: {', '.join(FORMATS)})"
    )
