"""Whole speeches: what was spoken, and many that are made by turns."""

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
from ..speech.timings import Timings
from .requests import ResolvedOmniRequest

Item = TypeVar("Item")


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


class OmniSpeeches(Generic[Item]):
    """Speeches in the order of their requests: an iterator, and a context manager that ends them all.

    One that failed raises when its turn comes, and the iteration can go on behind it.
    """

    def __init__(
        self,
        scheduler: Scheduler[Any, ResolvedOmniRequest],
        requests: Iterable[Item],
        begin: Callable[[Item], ScheduledStream[ResolvedOmniRequest]],
        texts: Callable[[ResolvedOmniRequest], Iterable[str]],
    ) -> None:
        """Take a scheduler, which is closed at the end.

        Args:
            scheduler: serves nobody else.
            requests: what is to be spoken.
            begin: submits a request to the scheduler; its account has to collect codes.
            texts: returns the chunks that a request is spoken in.
        """
        self._scheduler = scheduler
        self._ahead = Ahead(scheduler, requests, begin)
        self._texts = texts

    def __iter__(self) -> OmniSpeeches[Item]:
        return self

    def __next__(self) -> OmniSpeech:
        """Return the next speech when it is complete.

        Raises:
            UsageError: its request cannot be right for the model, or the text does not fit the context.
            EngineError: the device failed or ran out of memory.
        """
        stream = self._ahead.next()
        if stream is None:
            self.close()
            raise StopIteration
        samples = [chunk.samples for chunk in self._ahead.chunks(stream)]
        codes, request = stream.account.codes, stream.request
        assert codes is not None
        return OmniSpeech(
            np.concatenate(samples) if samples else np.zeros(0, np.float32),
            stream.sample_rate,
            np.stack(codes),
            tuple(self._texts(request)),
            request.seed,
            stream.timings,
        )

    def close(self) -> None:
        """End all speeches and let go of what they run on. Closing twice is harmless."""
        self._scheduler.close()

    def __enter__(self) -> OmniSpeeches[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
