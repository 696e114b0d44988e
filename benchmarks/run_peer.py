#!/usr/bin/env python3
"""Measure the PyPI package realtimetts-qwen-native-cpu in a venv of its own; qwen.py calls this.

The package is a build of qwentts.cpp. Its stage times are the [Perf] lines that the library logs.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import qwentts_cpp_cpu
from measurement import Measurement, peak_memory_mb, report
from runner_options import runner_options

STAGE = re.compile(r"\[Perf\] (\w+) ([\d.]+) ms")


def main() -> None:
    """Speak once to warm up, then `--repeat` times, and report each."""
    options = runner_options(__doc__ or "").parse_args()
    model = qwentts_cpp_cpu.QwenTTS(options.talker, options.codec, cpu_threads=options.threads)
    for run in range(options.repeat + 1):
        with captured_errors() as log:
            begin = perf_counter()
            samples, rate = model.synthesize(
                text=options.text, lang="english", seed=42, max_new_tokens=options.frames
            )
            seconds = perf_counter() - begin
        stages = {name: float(value) for name, value in STAGE.findall(log[0])}
        if "Prefill" not in stages:
            sys.exit(f"no [Perf] lines among:\n{log[0][-2000:]}")
        if run > 0:
            report(measured(stages, seconds, len(samples) / rate, options.frames))
    model.close()


def measured(stages: dict[str, float], seconds: float, audio_seconds: float, frames: int) -> Measurement:
    """Return the measurement of one utterance from its stage times in milliseconds."""
    return Measurement(
        prefill_ms=stages["Prefill"],
        talker_ms_per_frame=stages["TalkerDecode"] / frames,
        predictor_ms_per_frame=stages["CodePredictor"] / frames,
        codec_seconds_per_second=stages["CodecDecode"] / 1000 / audio_seconds,
        real_time_factor=seconds / audio_seconds,
        peak_memory_mb=peak_memory_mb(),
    )


@contextmanager
def captured_errors() -> Iterator[list[str]]:
    """Collect what the process writes to file descriptor 2, native code included; the text follows the block."""
    text: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode("utf-8", "replace"))


if __name__ == "__main__":
    main()
