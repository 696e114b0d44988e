"""From the codec's samples to what is heard: chunks joined, long silences cut, level, fades (post-processing).

`finish` works on the whole as the official package does, `finish_flat` gives the same samples in flat memory.
`finish_stream` gives them as they are made, but for one thing: speech without a reference gets its level from its
loudest sample, which nobody knows before the end. A stream takes the loudest of the first chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..audio.levels import (
    DEFAULT_EDGES,
    Edges,
    cross_fade,
    cross_faded,
    fade_and_pad,
    faded_and_padded,
    level_factor,
    match_level,
)
from ..audio.silence import SPEECH_SILENCE, remove_silence, silence_removed
from ..limits import EDGE
from ..speech.requests import require_kinds

FloatArray = NDArray[np.float32]

_PAUSE_SECONDS = 0.3
"""Between chunks: fade-out, silence and fade-in together."""
_FULL_SCALE = np.float32(32767 / 32768)
_BLOCK_BYTES = 1 << 20
INAUDIBLE = 1e-6
"""A peak up to which there is nothing to hear."""


@dataclass(frozen=True)
class Finishing:
    """What is done to speech after it was decoded.

    Attributes:
        cut_silence: cut long silences inside, and silence at both ends.
        edges: fades and silence put at both ends.

    Raises:
        UsageError: a value is of another kind, or no length in seconds.
    """

    cut_silence: bool = True
    edges: Edges = DEFAULT_EDGES

    def __post_init__(self) -> None:
        require_kinds(self, {"cut_silence": (bool,), "edges": (Edges,)})
        require_kinds(self.edges, {"fade": (Real,), "pad": (Real,)})
        EDGE.require("fade", self.edges.fade)
        EDGE.require("pad", self.edges.pad)


USUAL_FINISHING = Finishing()
RAW_FINISHING = Finishing(cut_silence=False, edges=Edges(fade=0.0, pad=0.0))
"""Level only."""


def finish(
    chunks: list[FloatArray], sample_rate: int, loudness: float | None, finishing: Finishing = USUAL_FINISHING
) -> FloatArray:
    """Return speech made in chunks [n] as it is to be heard.

    Args:
        chunks: as the codec made them.
        sample_rate: in Hz.
        loudness: RMS of the reference; None without one, which brings the loudest sample to one half.
        finishing: what is done.
    """
    samples = cross_fade(chunks, sample_rate, _PAUSE_SECONDS)
    if finishing.cut_silence:
        samples = remove_silence(samples, sample_rate, SPEECH_SILENCE)
    return fade_and_pad(match_level(samples, loudness), sample_rate, finishing.edges)


def finish_stream(
    chunks: Iterable[FloatArray],
    sample_rate: int,
    loudness: float | None,
    finishing: Finishing = USUAL_FINISHING,
) -> Iterator[FloatArray]:
    """Yield what `finish` returns of chunks [n] that are still being made, as soon as it is final."""
    level = RunningLevel(loudness, clipped=finishing.cut_silence)
    pieces = cross_faded(map(level.hear, chunks), sample_rate, _PAUSE_SECONDS)
    if finishing.cut_silence:
        pieces = silence_removed(pieces, sample_rate, SPEECH_SILENCE)
    yield from faded_and_padded(map(level.apply, pieces), sample_rate, finishing.edges)


def finish_flat(
    chunks: Iterable[FloatArray],
    sample_rate: int,
    loudness: float | None,
    finishing: Finishing = USUAL_FINISHING,
) -> Iterator[FloatArray]:
    """Yield what `finish` returns, to the last bit, in memory that does not grow with it.

    Where the level is that of the loudest sample, the speech waits in a temporary file until its end is known.
    """
    if loudness is not None:
        yield from finish_stream(chunks, sample_rate, loudness, finishing)
        return
    pieces = cross_faded(chunks, sample_rate, _PAUSE_SECONDS)
    if finishing.cut_silence:
        pieces = silence_removed(pieces, sample_rate, SPEECH_SILENCE)
    with TemporaryFile() as file:
        peak = 0.0
        for samples in pieces:
            peak = max(peak, _peak(samples))
            file.write(samples.astype(np.float32).tobytes())
        file.seek(0)
        scaled = (samples * np.float32(level_factor(peak, None)) for samples in _blocks(file))
        yield from faded_and_padded(scaled, sample_rate, finishing.edges)


class RunningLevel:
    """The level of speech whose end is not known yet.

    Without a reference it is set by the first chunk that can be heard, and lowered for good when something later would
    exceed full scale.
    """

    def __init__(self, loudness: float | None, *, clipped: bool = False) -> None:
        """`clipped`: the samples are limited to full scale on their way from `hear` to `apply`."""
        self._loudness, self._clipped = loudness, clipped
        self._peak = 0.0

    def hear(self, chunk: FloatArray) -> FloatArray:
        """Take note of a chunk [n] before it is worked on; return it as it is."""
        if self._peak <= INAUDIBLE:
            self._peak = _peak(np.clip(chunk, -1, _FULL_SCALE) if self._clipped else chunk)
        return chunk

    def apply(self, samples: FloatArray) -> FloatArray:
        """Return samples [n] at their level."""
        factor = level_factor(self._peak, self._loudness)
        if self._loudness is None and factor * _peak(samples) > 1:
            self._peak *= factor * _peak(samples)
            factor = level_factor(self._peak, None)
        return samples if factor == 1 else samples * np.float32(factor)


def _blocks(file: IO[bytes]) -> Iterator[FloatArray]:
    while data := file.read(_BLOCK_BYTES):
        yield np.frombuffer(data, np.float32)


def _peak(samples: FloatArray) -> float:
    return float(np.max(np.abs(samples), initial=0.0))
