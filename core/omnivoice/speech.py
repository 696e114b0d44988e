"""Whole speeches: what was spoken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio.audio import Audio
from ..speech.stream import AudioChunk, SpeechStream
from ..speech.timings import Timings
from .requests import ResolvedOmniRequest


@dataclass(frozen=True)
class OmniSpeech(Audio):
    """What was spoken.

    Attributes:
        codes: int32 [frames, codebooks], of all chunks one behind the other.
        chunks: the texts of the chunks.
        seed: repeats this speech when given again.
        timings: where the time went; the talker is the language model here.
    """

    codes: NDArray[np.int32]
    chunks: tuple[str, ...]
    seed: int
    timings: Timings

    @property
    def frames(self) -> int:
        """How many frames of codes it was made of."""
        return len(self.codes)


def whole_speech(
    stream: SpeechStream[ResolvedOmniRequest], chunks: Iterable[AudioChunk], texts: Iterable[str]
) -> OmniSpeech:
    """Read the chunks of a stream, spoken in these texts, to its end; its account collects codes."""
    samples = [chunk.samples for chunk in chunks]
    codes = stream.account.codes
    assert codes is not None
    return OmniSpeech(
        np.concatenate(samples) if samples else np.zeros(0, np.float32),
        stream.sample_rate,
        np.stack(codes),
        tuple(texts),
        stream.request.seed,
        stream.timings,
    )
