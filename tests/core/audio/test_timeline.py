"""Speech at given times: the right length, in order, never two voices at once."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ggtts.core.audio.timeline import MOST_STRETCH, PAUSE_SECONDS, Fitted, Slot, Timeline, fit, slots_of

RATE = 24_000


class Tape:
    """Keeps what is written, and how much at once."""

    def __init__(self) -> None:
        self.parts: list[NDArray[np.float32]] = []

    def write(self, samples: NDArray[np.float32]) -> None:
        self.parts.append(samples)

    @property
    def samples(self) -> NDArray[np.float32]:
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.float32)


def ones(seconds: float) -> NDArray[np.float32]:
    return np.ones(round(seconds * RATE), np.float32)


def test_silence_lies_between_what_is_placed() -> None:
    tape = Tape()
    timeline = Timeline(tape, RATE)
    timeline.place(0.5, ones(0.25))
    timeline.place(1.0, 2 * ones(0.5))
    timeline.finish(2.0)
    expected = np.concatenate([0 * ones(0.5), ones(0.25), 0 * ones(0.25), 2 * ones(0.5), 0 * ones(0.5)])
    np.testing.assert_array_equal(tape.samples, expected)
    assert timeline.seconds == 2.0


def test_the_end_may_be_later_than_the_last_slot_and_never_earlier_than_the_speech() -> None:
    timeline = Timeline(Tape(), RATE)
    timeline.place(0.0, ones(1.0))
    timeline.finish(0.5)
    assert timeline.samples == RATE


def test_there_are_never_two_voices_at_once() -> None:
    timeline = Timeline(Tape(), RATE)
    timeline.place(0.0, ones(1.0))
    with pytest.raises(ValueError, match="speech already"):
        timeline.place(0.9, ones(0.1))


def test_a_long_silence_is_written_in_small_blocks() -> None:
    tape = Tape()
    Timeline(tape, RATE).place(600.0, ones(0.1))
    assert len(tape.samples) == round(600.1 * RATE)
    assert max(map(len, tape.parts)) <= 1 << 16


def test_gaps_may_be_borrowed_but_for_a_pause() -> None:
    slots = slots_of([(0.5, 2.0), (2.5, 5.0), (5.0, 6.0), (6.05, 7.0)])
    assert [slot.limit for slot in slots] == [2.5 - PAUSE_SECONDS, 5.0, 6.0, inf]
    assert [slot.seconds for slot in slots] == pytest.approx([1.5, 2.5, 1.0, 0.95])


@pytest.mark.parametrize(
    "times", [[(0.0, 2.0), (1.0, 3.0)], [(2.0, 1.0)], [(-1.0, 1.0)], [(3.0, 4.0), (1.0, 2.0)]]
)
def test_slots_that_cannot_be(times: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="slot"):
        slots_of(times)


def test_speech_that_fits_only_has_its_ends_faded() -> None:
    fitted = fit(ones(0.5), Slot(1.0, 2.0, 2.5), RATE, may_stretch=True)
    assert (fitted.stretched, fitted.cut) == (1.0, 0.0)
    assert len(fitted.samples) == RATE // 2
    assert (fitted.samples[200:-200] == 1).all()
    assert fitted.samples[0] < 0.01
    assert fitted.samples[-1] < 0.01


def test_hopeless_speech_is_made_faster() -> None:
    tone = np.sin(0.05 * np.arange(RATE * 3 // 2)).astype(np.float32)
    fitted = fit(tone, Slot(0.0, 0.9, 1.0), RATE, may_stretch=True)
    assert fitted.stretched == 1.5
    assert fitted.cut == 0.0
    assert len(fitted.samples) == RATE


def test_what_is_too_much_even_so_is_cut_with_a_fade() -> None:
    fitted = fit(ones(3.0), Slot(0.0, 0.5, 1.0), RATE, may_stretch=True)
    assert fitted.stretched == MOST_STRETCH
    assert fitted.cut == pytest.approx(0.5)
    tail = fitted.samples[-720:]
    assert (np.diff(tail) < 0).all()
    assert tail[-1] < 0.01
    assert fit(ones(3.0), Slot(0.0, 0.5, 1.0), RATE, may_stretch=False).cut == pytest.approx(2.0)


def test_a_few_samples_too_many_are_no_loss() -> None:
    fitted = fit(ones(1.002), Slot(0.0, 1.0, 1.0), RATE, may_stretch=False)
    assert (len(fitted.samples), fitted.cut) == (RATE, 0.0)


def test_there_may_be_no_room_at_all() -> None:
    fitted = fit(ones(1.0), Slot(1.0, 1.0, 1.0), RATE, may_stretch=True)
    assert (len(fitted.samples), fitted.cut) == (0, 1.0)
    assert fit(ones(0.0), Slot(0.0, 1.0, inf), RATE, may_stretch=True) == Fitted(
        pytest.approx(ones(0.0)), 1.0, 0.0
    )


MILLISECONDS = st.integers(0, 900)


@given(st.lists(st.tuples(MILLISECONDS, MILLISECONDS, MILLISECONDS), min_size=1, max_size=8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_cues_make_one_timeline_without_overlap(
    spans: list[tuple[int, int, int]], may_stretch: bool
) -> None:
    times, speech, position = [], [], 0.0
    for gap, length, spoken in spans:
        start = position + gap / 1000
        position = start + length / 1000
        times.append((start, position))
        speech.append(ones(spoken / 1000))
    tape = Tape()
    timeline = Timeline(tape, RATE)
    placed = []
    for slot, samples in zip(slots_of(times), speech, strict=True):
        fitted = fit(samples, slot, RATE, may_stretch=may_stretch)
        timeline.place(slot.start, fitted.samples)  # raises when something is there already
        placed.append((slot, fitted))
    timeline.finish(times[-1][1])
    last_end = round(times[-1][0] * RATE) + len(placed[-1][1].samples)
    assert len(tape.samples) == timeline.samples == max(round(times[-1][1] * RATE), last_end)
    silent = np.ones(len(tape.samples), bool)
    for slot, fitted in placed:
        begin = round(slot.start * RATE)
        assert slot.limit == inf or begin + len(fitted.samples) <= round(slot.limit * RATE)
        np.testing.assert_array_equal(tape.samples[begin : begin + len(fitted.samples)], fitted.samples)
        silent[begin : begin + len(fitted.samples)] = False
    assert not tape.samples[silent].any()
