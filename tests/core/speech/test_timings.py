"""The stopwatch."""

from __future__ import annotations

import time

from ggtts.core.speech.timings import Stopwatch


def test_parts_add_up() -> None:
    stopwatch = Stopwatch()
    for part in ("prompt", "prefill", "talker", "talker", "predictor", "codec"):
        with stopwatch.measure(part):
            time.sleep(0.002)
    stopwatch.mark("first_frame")
    marked = stopwatch.timings().first_frame_seconds
    stopwatch.mark("first_frame")
    time.sleep(0.002)
    times = stopwatch.timings()
    assert times.talker_seconds >= 0.004
    assert (
        min(times.prompt_seconds, times.prefill_seconds, times.predictor_seconds, times.codec_seconds)
        >= 0.002
    )
    assert times.host_seconds >= 0.002
    assert times.first_frame_seconds == marked >= 0.012
    named = times.prompt_seconds + times.prefill_seconds + times.talker_seconds + times.predictor_seconds
    assert abs(named + times.codec_seconds + times.host_seconds - times.total_seconds) < 1e-6


def test_a_part_that_fails_counts_too() -> None:
    stopwatch = Stopwatch()
    try:
        with stopwatch.measure("codec"):
            time.sleep(0.002)
            raise RuntimeError
    except RuntimeError:
        pass
    assert stopwatch.timings().codec_seconds >= 0.002
    assert stopwatch.timings().first_frame_seconds == 0
