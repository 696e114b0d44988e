"""What one synthesis cost, as the runners report it to qwen.py: one JSON object a line."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Measurement:
    """One synthesis. Frames last 80 ms; the real-time factor is seconds of work per second of audio."""

    prefill_ms: float
    talker_ms_per_frame: float
    predictor_ms_per_frame: float
    codec_seconds_per_second: float
    real_time_factor: float
    peak_memory_mb: float


LABELS = {
    "prefill_ms": "prefill, ms",
    "talker_ms_per_frame": "talker, ms/frame",
    "predictor_ms_per_frame": "predictor, ms/frame",
    "codec_seconds_per_second": "codec, s per s of audio",
    "real_time_factor": "real-time factor",
    "peak_memory_mb": "peak memory, MB",
}


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process so far, mapped files included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def report(measurement: Measurement) -> None:
    """Write one measurement for `parse`."""
    print(json.dumps(asdict(measurement)), flush=True)


def parse(lines: Iterable[str]) -> list[Measurement]:
    """Read the measurements among the lines of a runner."""
    return [Measurement(**json.loads(line)) for line in lines if line.startswith("{")]


def medians(measurements: list[Measurement]) -> Measurement:
    """Return the median of each number; of the memory, the maximum."""
    columns = {name: [getattr(one, name) for one in measurements] for name in LABELS}
    peak = max(columns.pop("peak_memory_mb"))
    return Measurement(**{name: median(values) for name, values in columns.items()}, peak_memory_mb=peak)
