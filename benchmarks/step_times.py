"""What a step of a batch spends its time with: every kind of call is timed while it is watched."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ggtts.core.qwen.batch import FrameStage, PrefillStage
from ggtts.core.qwen.code_predictor_batch import CodePredictorBatch
from ggtts.core.qwen.codec_stage import CodecStage
from ggtts.core.qwen.kernel_predictor import KernelBatch
from ggtts.core.speech.lockstep import Lockstep

WATCHED: list[tuple[str, type, str]] = [
    ("prefill", PrefillStage, "run"),
    ("talker", FrameStage, "_heard"),
    ("predictor", CodePredictorBatch, "expand"),
    ("predictor", KernelBatch, "expand"),
    ("codec", CodecStage, "run"),
    ("frames", FrameStage, "run"),
    ("steps", Lockstep, "_step"),
]


@dataclass
class StepTimes:
    """Seconds by kind of call, and how many calls and frames there were.

    Attributes:
        beside: the codec works on a thread of its own.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    beside: bool = False
    frames: int = 0

    def row(self, at_once: int) -> str:
        """Return milliseconds of a step, and microseconds of the rest for each line and frame."""
        steps = max(1, self.calls["frames"])
        parts = [self.seconds[part] for part in ("prefill", "talker", "predictor", "codec")]
        spent = sum(parts[:3] if self.beside else parts)
        rest = self.seconds["steps"] - spent
        cells = [self.seconds["steps"], *parts, rest]
        shown = " | ".join(f"{1000 * seconds / steps:.2f}" for seconds in cells)
        return f"| {at_once} | {self.frames / steps:.1f} | {shown} | {1e6 * rest / max(1, self.frames):.0f} |"


COLUMNS = [
    "at once",
    "lines in a step",
    "ms a step",
    "prefill",
    "talker",
    "predictor",
    "codec",
    "the rest",
    "us a line",
]
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
"""Of the rows; the last column is the rest, too, for each line and frame."""


@contextmanager
def watched() -> Iterator[StepTimes]:
    """Give the times of all batches that run inside the block, of one scheduler after the other."""
    times, originals = StepTimes(), [getattr(owner, name) for _, owner, name in WATCHED]
    for (part, owner, name), original in zip(WATCHED, originals, strict=True):
        setattr(owner, name, _timed(original, part, times))
    try:
        yield times
    finally:
        for (_, owner, name), original in zip(WATCHED, originals, strict=True):
            setattr(owner, name, original)


def _timed(function: Callable[..., Any], part: str, times: StepTimes) -> Callable[..., Any]:
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(self, *arguments, **options)
        finally:
            times.seconds[part] += time.perf_counter() - begin
            times.calls[part] += 1
            if part == "frames":
                times.frames += len(arguments[0])
            if part == "steps":
                times.beside = self._background is not None

    return run
