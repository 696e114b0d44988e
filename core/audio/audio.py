"""Samples and their rate: what models return and files hold."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .formats import choose_format
from .sinks import open_sink


@dataclass(frozen=True)
class Audio:
    """One channel of sound.

    Attributes:
        samples: float32 [n], full scale 1.0.
        sample_rate: samples per second.
    """

    samples: NDArray[np.float32]
    sample_rate: int

    @property
    def seconds(self) -> float:
        """Length of the audio."""
        return len(self.samples) / self.sample_rate

    def save(self, path: str | PathLike[str], audio_format: str | None = None) -> None:
        """Write a file, in the format that is named or that the ending says (16-bit WAV, FLAC, MP3, Ogg, Opus, ...).

        It is written beside its name and renamed when complete.

        Raises:
            UsageError: unknown format, or one that contradicts the ending.
            OutputError: the file cannot be written.
        """
        name = fspath(path)
        with open_sink(name, choose_format(name, audio_format), self.sample_rate, stdout=_no_stream) as sink:
            sink.write(self.samples)


def _no_stream() -> NoReturn:
    raise UsageError("audio is saved to a file; '-' names none")
