"""A model that hums: instant, exact lengths, and it remembers what it was asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from ggtts.core.qwen.requests import SpeechRequest
from ggtts.core.qwen.timings import Timings

SAMPLES_PER_FRAME = 1920
FRAMES_PER_WORD = 2


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

    def open(self, talker: Path, codec: Path, **options: Any) -> FakeModel:
        """Remember what would have been loaded."""
        self.opened.append((talker, codec, options))
        return self

    def __enter__(self) -> FakeModel:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def resolve(self, request: SpeechRequest) -> SpeechRequest:
        """Choose 77 as the random seed."""
        seed = 77 if request.sampling.seed is None else request.sampling.seed
        return replace(request, sampling=replace(request.sampling, seed=seed))

    def speak(self, request: SpeechRequest, on_frame: Callable[[int], None] | None = None) -> SimpleNamespace:
        """Hum for as long as the text takes, up to the frame limit."""
        self.requests.append(request)
        if self.failure:
            raise self.failure
        wanted = 0 if self.silent else FRAMES_PER_WORD * len(request.text.split())
        frames = min(wanted, request.max_frames)
        for frame in range(frames):
            time.sleep(self.seconds_per_frame)
            if on_frame:
                on_frame(frame + 1)
        return SimpleNamespace(
            samples=hum(frames * SAMPLES_PER_FRAME),
            sample_rate=self.sample_rate,
            frames=frames,
            codes=np.zeros((frames, 16), np.int32),
            seed=request.sampling.seed,
            stop="end_of_speech" if frames == wanted else "max_frames",
            timings=Timings(*[0.1] * 8),
        )


def hum(samples: int) -> np.ndarray:
    """A tone [samples] that grows louder."""
    time_axis = np.arange(samples, dtype=np.float32)
    return (np.sin(time_axis * 0.05) * np.minimum(time_axis / 1e5, 1)).astype(np.float32)
