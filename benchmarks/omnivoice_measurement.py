"""What an OmniVoice program cost, as the runners report it to omnivoice.py: one JSON object a line."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time


def labels(few_steps: int, many_steps: int) -> dict[str, str]:
    """Return everything that is measured, and how the table calls it."""
    return {
        "step_ms": "step, ms",
        "few_steps_seconds": f"speech in {few_steps} steps, s",
        "many_steps_seconds": f"speech in {many_steps} steps, s",
        "encode": "codec encode, s per s of audio",
        "decode": "codec decode, s per s of audio",
        "few_steps_seconds_cpu": f"speech in {few_steps} steps, processor s",
        "many_steps_seconds_cpu": f"speech in {many_steps} steps, processor s",
        "encode_cpu": "codec encode, processor s per s of audio",
        "decode_cpu": "codec decode, processor s per s of audio",
        "speech_memory_mb": "peak memory after speech, MB",
        "codec_memory_mb": "peak memory after encoding too, MB",
    }


def report(name: str, value: float) -> None:
    """Write one number for `medians`."""
    print(json.dumps({"name": name, "value": value}), flush=True)


@contextmanager
def timed(name: str, per: float = 1.0) -> Iterator[None]:
    """Report the seconds that the body takes, divided by `per`, and as `name`_cpu those of the processor.

    The latter are of all threads together, and hardly longer on a busy machine.
    """
    begin, begin_cpu = perf_counter(), process_time()
    yield
    report(name, (perf_counter() - begin) / per)
    report(f"{name}_cpu", (process_time() - begin_cpu) / per)


def medians(lines: Iterable[str]) -> dict[str, float]:
    """Return the median of each number among the lines of a runner."""
    columns = defaultdict(list)
    for line in lines:
        if line.startswith('{"name"'):
            entry = json.loads(line)
            columns[entry["name"]].append(entry["value"])
    return {name: median(values) for name, values in columns.items()}
