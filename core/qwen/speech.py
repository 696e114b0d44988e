"""Whole speeches: streams that were read to their end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio.audio import Audio
from ..speech.stream import AudioChunk, SpeechStream, StopReason
from ..speech.timings import Timings
from .requests import ResolvedRequest


@dataclass(frozen=True)
class Speech(Audio):
    """What was spoken.

    Attributes:
        frames: how many frames of codes it was made of.
        codes: int32 [frames, codebooks].
        seed: repeats this speech when given again.
        stop: "end_of_speech", or why it was cut off: "max_frames", "context", or "runaway" by the guard. Of several
            pieces, the first that was cut off says why.
        timings: where the time went.
    """

    frames: int
    codes: NDArray[np.int32]
    seed: int
    stop: StopReason
    timings: Timings


def whole_speech(stream: SpeechStream[ResolvedRequest], chunks: Iterable[AudioChunk]) -> Speech:
    """Read the chunks of a stream to its end; its account collects codes."""
    samples = [chunk.samples for chunk in chunks]
    codes, stop = stream.account.codes, stream.stop
    assert codes is not None
    assert stop is not None
    return Speech(
        np.concatenate(samples) if samples else np.zeros(0, np.float32),
        stream.sample_rate,
        stream.frames,
        np.stack(codes),
        stream.request.seed,
        stop,
        stream.timings,
    )
