"""A model that hums: instant, exact lengths, and it remembers what it was asked."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ggtts.core.errors import EngineError, UsageError
from ggtts.core.qwen.requests import SpeechRequest
from ggtts.core.qwen.voice import Voice
from ggtts.core.speech.lockstep import Task
from ggtts.core.speech.observer import Observer
from ggtts.core.speech.scheduler import Scheduler
from ggtts.core.speech.stream import Account
from ggtts.core.speech.timings import Timings
from ggtts.core.text.sentences import split_text

SAMPLES_PER_FRAME = 1920
FRAMES_PER_WORD = 2
DEMO_TALKER = Path("demo-talker")
DEMO_WORDS = 20
FIRST_RANDOM_SEED = 77
FAILING_WORD = "failing"
"""The device breaks down when it comes to this word."""


@dataclass
class FakeModel:
    """Stands in for `QwenTTS`: each word takes two frames, its loudness grows from word to word."""

    seconds_per_frame: float = 0.0
    silent: bool = False
    failure: Exception | None = None
    sample_rate: int = 24_000
    frame_rate: float = 12.5
    speakers: dict[str, int] = field(default_factory=lambda: {"adam": 1, "eva": 2})
    languages: dict[str, int] = field(default_factory=lambda: {"english": 1})
    opened: list[tuple[Path, Path, dict[str, Any]]] = field(default_factory=list)
    requests: list[SpeechRequest] = field(default_factory=list)
    streams: list[FakeStream] = field(default_factory=list)
    parallel: list[int] = field(default_factory=list)
    voices: list[tuple[np.ndarray, int, str | None]] = field(default_factory=list)

    def open(self, talker: Path, codec: Path, **options: Any) -> FakeModel:
        """Remember what would have been loaded."""
        self.opened.append((talker, codec, options))
        return self

    def __enter__(self) -> FakeModel:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def voice(
        self, recording: tuple[np.ndarray, int], text: str | None = None, *, observer: Observer | None = None
    ) -> Voice:
        """Remember the recording and make some voice."""
        self.voices.append((*recording, text))
        if observer:
            observer.stage("audio-input", recording[0])
        return Voice(np.ones(4, np.float32), None if text is None else np.zeros((3, 16), np.int32), text)

    def resolve(self, request: SpeechRequest) -> SpeechRequest:
        """Know two speakers, and give each utterance a random seed of its own."""
        if request.speaker not in (None, *self.speakers):
            raise UsageError(f"unknown speaker {request.speaker!r}")
        random_seed = FIRST_RANDOM_SEED + len(self.requests)
        seed = random_seed if request.sampling.seed is None else request.sampling.seed
        return replace(request, sampling=replace(request.sampling, seed=seed))

    def stream(
        self,
        request: SpeechRequest,
        *,
        stream_frames: int | None = None,
        observer: Observer | None = None,
        parallel: int = 1,
    ) -> FakeStream:
        """Hum for as long as the text takes, up to the frame limit."""
        self.parallel.append(parallel)
        resolved = self.resolve(request)
        self.requests.append(resolved)
        stream = FakeStream(self, resolved, stream_frames or 4, observer or Observer())
        self.streams.append(stream)
        return stream

    def scheduler(self, max_batch: int) -> Scheduler[Any, Any]:
        """Hum several requests in turn."""

        def begin(request: SpeechRequest, **options: Any) -> Task[Any]:
            stream = self.stream(request, **options)
            return Task(stream.request, stream.sample_rate, Account(), stream.scheduled())

        return Scheduler(begin, max_batch)


class FakeStream:
    """Stands in for `SpeechStream`: chunks of 1, 2, 4 ... frames."""

    def __init__(self, model: FakeModel, request: SpeechRequest, most_frames: int, observer: Observer):
        self.request = _Resolved(request.sampling.seed or 0)
        self.sample_rate = model.sample_rate
        self.frames = 0
        self.stop: str | None = None
        self.timings = Timings(*[0.1] * 9)
        self.closed = False
        self.chunk_frames: list[int] = []
        self._chunks = self._hum(model, request, most_frames, observer)

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True
        self._chunks.close()

    def scheduled(self) -> Generator[Any, None, None]:
        """The chunks, for a scheduler to ask for."""
        with self:
            yield from self._chunks

    def _hum(
        self, model: FakeModel, request: SpeechRequest, most_frames: int, observer: Observer
    ) -> Iterator[Chunk]:
        if model.failure:
            raise model.failure
        cut = request.split is not False and model.opened[-1][0] == DEMO_TALKER
        pieces = split_text(request.text, DEMO_WORDS) if cut else [request.text]
        ramp = 1
        for number, text in enumerate(pieces, start=1):
            observer.piece(number, len(pieces))
            words = [] if model.silent else text.split()
            frames = min(FRAMES_PER_WORD * len(words), request.max_frames)
            done = 0
            while done < frames:
                size = min(ramp, most_frames, frames - done)
                ramp = min(2 * ramp, most_frames)
                for frame in range(done, done + size):
                    if words[frame // FRAMES_PER_WORD] == FAILING_WORD:
                        raise EngineError("the device broke down")
                    time.sleep(model.seconds_per_frame)
                    observer.frame(frame + 1)
                start = self.frames * SAMPLES_PER_FRAME
                self.frames += size
                self.chunk_frames.append(size)
                done += size
                yield Chunk(hum(start, size * SAMPLES_PER_FRAME), size, number, len(pieces))
            if observer.wants_stages:
                observer.stage("codes-full", np.zeros((frames, 16), np.int32))
        self.stop = "end_of_speech"


@dataclass(frozen=True)
class Chunk:
    """Stands in for `AudioChunk`, which would load the engine."""

    settled: ClassVar[bool] = True

    samples: np.ndarray
    frames: int
    piece: int
    pieces: int

    def finish(self) -> Chunk:
        """Return it: there is nothing left to do."""
        return self


@dataclass(frozen=True)
class _Resolved:
    seed: int
    warnings: tuple[str, ...] = ()


def hum(start: int, samples: int) -> np.ndarray:
    """A tone [samples] that grows louder, from sample `start` on."""
    time_axis = np.arange(start, start + samples, dtype=np.float32)
    return (np.sin(time_axis * 0.05) * np.minimum(time_axis / 1e5, 1)).astype(np.float32)
