"""Where the time of an utterance goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Timings:
    """Wall-clock seconds of one utterance.

    Attributes:
        prompt_seconds: tokenising, text projection, assembling the prompt.
        prefill_seconds: the talker reading the prompt.
        first_frame_seconds: from the start until the codes of the first frame.
        talker_seconds: all further runs of the talker.
        predictor_seconds: the code predictor, the drawing of its codes included.
        host_seconds: the rest of the frame loop.
        codec_seconds: codes to samples; where the codec works meanwhile, what the speech waited for it.
        total_seconds: all of it.
        first_audio_seconds: from the start until the first samples were there.
    """

    prompt_seconds: float
    prefill_seconds: float
    first_frame_seconds: float
    talker_seconds: float
    predictor_seconds: float
    host_seconds: float
    codec_seconds: float
    total_seconds: float
    first_audio_seconds: float = 0.0


class Stopwatch:
    """Adds up the time of named parts. It starts when it is made, and stands still while it is paused."""

    def __init__(self) -> None:
        self._begin = perf_counter()
        self._paused_at: float | None = None
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._marks: dict[str, float] = {}

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time that the body takes to a part."""
        begin = perf_counter()
        try:
            yield
        finally:
            self._parts[part] += perf_counter() - begin

    def add(self, part: str, seconds: float) -> None:
        """Add time that somebody else has measured to a part."""
        self._parts[part] += seconds

    def mark(self, moment: str) -> None:
        """Note when something happens for the first time."""
        self._marks.setdefault(moment, self._now() - self._begin)

    def pause(self) -> None:
        """Stand still: what happens now is not part of the utterance. Pausing twice is harmless."""
        self._paused_at = self._now()

    def resume(self) -> None:
        """Go on after a pause."""
        if self._paused_at is not None:
            self._begin += perf_counter() - self._paused_at
            self._paused_at = None

    def timings(self) -> Timings:
        """Return the times so far."""
        parts = self._parts
        total = self._now() - self._begin
        named = sum(parts[part] for part in ("prompt", "prefill", "talker", "predictor", "codec"))
        return Timings(
            prompt_seconds=parts["prompt"],
            prefill_seconds=parts["prefill"],
            first_frame_seconds=self._marks.get("first_frame", 0.0),
            talker_seconds=parts["talker"],
            predictor_seconds=parts["predictor"],
            host_seconds=total - named,
            codec_seconds=parts["codec"],
            total_seconds=total,
            first_audio_seconds=self._marks.get("first_audio", 0.0),
        )

    def _now(self) -> float:
        return perf_counter() if self._paused_at is None else self._paused_at
