"""A family of models that hums: instant, scripted by the words of the text, and every stream is accounted for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ggtts.core.errors import AudioFileError, EngineError, UsageError
from ggtts.core.parameters import EMBEDDING
from ggtts.core.server.families import Family, Speaker
from ggtts.core.server.recordings import Recording
from ggtts.core.server.voice_parts import VoiceParts
from support.fake_model import SAMPLES_PER_FRAME, Chunk, hum

SCRIPT = """
Each word is a frame of humming, but: "fail" is a device that breaks down, "wait" is one that waits for `go`, "endless"
goes on until nobody listens, and "silence" is no sound at all.
"""


@dataclass(frozen=True)
class HummedRequest:
    """A resolved request."""

    text: str
    seed: int
    speaker: Speaker
    values: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


class HummingFamily(Family):
    """Stands in for a model."""

    architecture = "humming"
    options = frozenset({"temperature", "max_new_tokens"})
    warm_values: Mapping[str, Any] = {}
    native_speed = False
    designs = False
    clones = True
    name = "humming model"
    codebooks = 16
    sample_rate = 24_000
    frame_rate = 12.5

    def __init__(self, speakers: tuple[str, ...] = ("adam", "eva")) -> None:
        self.speakers = speakers
        self.go = threading.Event()
        """Lets streams that wait go on."""
        self.waiting = threading.Semaphore(0)
        """Counts the streams that have come to wait."""
        self.hummer: Hummer | None = None

    def scheduler(self, places: int) -> Any:
        self.hummer = Hummer(self, places)
        return self.hummer

    def resolve(self, text: str, language: str, speaker: Speaker, values: Mapping[str, Any]) -> HummedRequest:
        if language not in ("auto", "english"):
            raise UsageError(f"unknown language {language!r}")
        warnings = ("the instruction is ignored",) if values.get("instructions") else ()
        return HummedRequest(text, values.get("seed", 7), speaker, values, warnings)

    def learn(self, recording: Recording, text: str | None) -> VoiceParts:
        if not recording.samples.any():
            raise AudioFileError("the recording is silent")
        codes = None if text is None else np.zeros((3, 16), np.int32)
        return VoiceParts("humming", np.full(4, recording.sample_rate, np.float32), codes, text)

    def clone(self, parts: VoiceParts) -> VoiceParts:
        if parts.embedding is None or len(parts.embedding) != 4:
            raise UsageError(f"a voice for humming needs 4 values ({EMBEDDING})")
        return parts


@dataclass
class Hummer:
    """Stands in for a scheduler; every stream is made by whoever reads it."""

    family: HummingFamily
    places: int
    streams: list[HummingStream] = field(default_factory=list)
    closed: bool = False
    most: int = 0
    """How many were open at once."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, request: HummedRequest, *, stream_frames: int | None = None) -> HummingStream:
        """Begin a stream."""
        with self._lock:
            if self.closed:
                raise EngineError("the scheduler was closed")
            stream = HummingStream(self, request)
            self.streams.append(stream)
            self.most = max(self.most, len(self.open))
            return stream

    @property
    def open(self) -> list[HummingStream]:
        """Streams that nobody has closed."""
        return [stream for stream in self.streams if not stream.closed.is_set()]

    def close(self) -> None:
        """End all streams with an error."""
        with self._lock:
            self.closed = True
        self.family.go.set()


class HummingStream:
    """Stands in for a stream of speech."""

    def __init__(self, hummer: Hummer, request: HummedRequest) -> None:
        self.request = request
        self.frames = 0
        self.stop: str | None = None
        self.closed = threading.Event()
        self._hummer = hummer

    def __iter__(self) -> Iterator[Chunk]:
        for word in self._words():
            if self._hummer.closed:
                raise EngineError("the scheduler was closed")
            if word == "fail":
                raise EngineError("the device broke down")
            if word == "wait":
                self._wait()
            if self.closed.is_set():
                return
            if word not in ("silence", "wait"):
                yield Chunk(self._frame(), 1, 1, 1)
                self.frames += 1
        self.stop = "end_of_speech"

    def close(self) -> None:
        """Want no more of it."""
        self.closed.set()

    def __enter__(self) -> HummingStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _words(self) -> Iterator[str]:
        words = self.request.text.split()
        yield from words
        while "endless" in words:
            yield "endless"

    def _wait(self) -> None:
        self._hummer.family.waiting.release()
        while not self._hummer.family.go.wait(0.01):
            if self.closed.is_set():
                return

    def _frame(self) -> np.ndarray:
        start = (self.frames + self.request.seed % 100) * SAMPLES_PER_FRAME
        return hum(start, SAMPLES_PER_FRAME)
