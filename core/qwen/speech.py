"""Whole speeches: one that was read to its end, and many that are made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..audio.audio import Audio
from ..speech.ahead import Ahead
from ..speech.scheduler import ScheduledStream, Scheduler
from ..speech.stream import AudioChunk, SpeechStream, StopReason
from ..speech.timings import Timings
from .requests import ResolvedRequest

Item = TypeVar("Item")


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


class Speeches(Generic[Item]):
    """Speeches in the order of their requests: an iterator, and a context manager that ends them all.

    One that failed raises when its turn comes, and the iteration can go on behind it.
    """

    def __init__(
        self,
        scheduler: Scheduler[Any, ResolvedRequest],
        requests: Iterable[Item],
        begin: Callable[[Item], ScheduledStream[ResolvedRequest]],
    ) -> None:
        """`begin` submits a request to `scheduler`, which is closed at the end; the account collects codes."""
        self._scheduler = scheduler
        self._ahead = Ahead(scheduler, requests, begin)

    def __iter__(self) -> Speeches[Item]:
        return self

    def __next__(self) -> Speech:
        """Return the next speech when it is complete.

        Raises:
            UsageError: its request cannot be right for the model, or the text does not fit the context.
            EngineError: the device failed or ran out of memory.
        """
        stream = self._ahead.next()
        if stream is None:
            self.close()
            raise StopIteration
        return whole_speech(stream, self._ahead.chunks(stream))

    def close(self) -> None:
        """End all speeches and let go of what they run on. Closing twice is harmless."""
        self._scheduler.close()

    def __enter__(self) -> Speeches[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
