"""The stopwatch."""

from __future__ import annotations

import pytest

from ggtts.core.speech import timings
from ggtts.core.speech.timings import Stopwatch


class Clock:
    """Stands still between two ticks."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def tick(self) -> None:
        """Let a quarter of a second pass."""
        self.seconds += 0.25


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timings, "perf_counter", clock)
    return clock


def test_parts_add_up(clock: Clock) -> None:
    stopwatch = Stopwatch()
    for part in ("prompt", "prefill", "talker", "talker", "predictor", "codec"):
        with stopwatch.measure(part):
            clock.tick()
    stopwatch.mark("first_frame")
    assert stopwatch.timings().first_frame_seconds == 1.5
    stopwatch.mark("first_frame")
    clock.tick()
    times = stopwatch.timings()
    assert times.talker_seconds == 0.5
    assert times.prompt_seconds == times.prefill_seconds == times.predictor_seconds == 0.25
    assert times.codec_seconds == times.host_seconds == 0.25
    assert times.first_frame_seconds == 1.5, "the first time counts"
    assert times.total_seconds == 1.75


def test_a_part_that_fails_counts_too(clock: Clock) -> None:
    stopwatch = Stopwatch()
    with pytest.raises(RuntimeError), stopwatch.measure("codec"):  # noqa: PT012
        clock.tick()
        raise RuntimeError
    assert stopwatch.timings().codec_seconds == 0.25
    assert stopwatch.timings().first_frame_seconds == 0


def test_a_pause_is_no_part_of_it(clock: Clock) -> None:
    stopwatch = Stopwatch()
    clock.tick()
    stopwatch.pause()
    for _ in range(3):
        clock.tick()
        stopwatch.pause()
    assert stopwatch.timings().total_seconds == 0.25
    stopwatch.resume()
    clock.tick()
    stopwatch.resume()
    assert stopwatch.timings().total_seconds == 0.5
