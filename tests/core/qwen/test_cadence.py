"""How frames are grouped for the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.errors import UsageError
from ggtts.core.qwen.cadence import STREAM_FRAMES, UNHEARD_FRAMES, Cadence, Gathering
from ggtts.core.speech.stream import Account


def frames(count: int) -> list[np.ndarray]:
    return [np.full(16, index, np.int32) for index in range(count)]


def batches(cadence: Cadence, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """What a cadence makes of frames that are there when they are asked for."""

    gathering = Gathering(cadence)
    for frame in frames:
        batch = gathering.add(frame)
        if batch is not None:
            yield batch
    rest = gathering.rest()
    if rest is not None:
        yield rest


@pytest.mark.parametrize(
    ("cadence", "sizes"),
    [
        (Cadence(8), [1, 2, 4, 8, 8]),
        (Cadence(6), [1, 2, 4, 6, 6]),
        (Cadence(1), [1, 1, 1, 1, 1]),
        (Cadence(300, ramp=False), [300] * 5),
    ],
)
def test_sizes(cadence: Cadence, sizes: list[int]) -> None:
    assert list(islice(cadence.sizes(), 5)) == sizes


@given(count=st.integers(0, 60), most=st.integers(1, 20), ramp=st.booleans())
def test_batches_hold_every_frame_once_and_in_order(count: int, most: int, ramp: bool) -> None:
    made = list(batches(Cadence(most, ramp), frames(count)))
    joined = np.concatenate(made)[:, 0].tolist() if made else []
    assert joined == list(range(count))
    assert all(0 < len(batch) <= most for batch in made)


def test_a_batch_leaves_as_soon_as_it_is_complete() -> None:
    taken: list[int] = []

    def slowly() -> Iterator[np.ndarray]:
        for index, frame in enumerate(frames(7)):
            taken.append(index)
            yield frame

    seen = [(len(batch), len(taken)) for batch in batches(Cadence(4), slowly())]
    assert seen == [(1, 1), (2, 3), (4, 7)]


@pytest.mark.parametrize("most", [0, -1])
def test_no_frames_at_once(most: int) -> None:
    with pytest.raises(UsageError, match=f"{most} frames cannot be decoded at once"):
        Cadence(most)


@pytest.mark.parametrize("speed", [2.0, 3.0])
def test_a_model_twice_as_fast_as_real_time_never_falls_behind(speed: float) -> None:
    assert delay(STREAM_FRAMES, speed) == 0


def test_a_model_just_at_real_time_needs_no_more_than_players_buffer() -> None:
    assert delay(STREAM_FRAMES, 1.0) * 0.08 <= 0.25


def delay(most: int, speed: float) -> float:
    """How many frames late a player is at worst that begins with the first chunk."""
    made, late = 0, 0.0
    for size in islice(Cadence(most).sizes(), 40):
        heard_by_then = made
        made += size
        late = max(late, (made - 1) / speed - heard_by_then)
    return late


@pytest.mark.parametrize(
    ("heard", "sizes"),
    [
        (lambda frame: True, [1, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1]),
        (lambda frame: False, [1, 16, 16, 7]),
        (lambda frame: frame >= 10, [1, 9, 4, 4, 4, 4, 4, 4, 4, 2]),
    ],
)
def test_batches_grow_while_nobody_waits(heard: Callable[[int], bool], sizes: list[int]) -> None:
    taken, given = [0], [0]
    cadence = Cadence(4, True, 16, lambda: given[0] > 0 and not heard(taken[0]))

    def counted() -> Iterator[np.ndarray]:
        for frame in frames(40):
            taken[0] += 1
            yield frame

    made = []
    for batch in batches(cadence, counted()):
        given[0] += 1
        made.append(len(batch))
    assert made == sizes


def test_a_cap_is_a_cap() -> None:
    account = Account(unheard=3)
    assert max(len(batch) for batch in batches(Cadence.of_batch(3, account), frames(40))) == 3
    assert max(len(batch) for batch in batches(Cadence.of_batch(300, account), frames(400))) == UNHEARD_FRAMES
    assert (
        max(len(batch) for batch in batches(Cadence.of_batch(None, account), frames(400))) == UNHEARD_FRAMES
    )
