"""How long a text can take, and what counts as repetition."""

from __future__ import annotations

from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.qwen.guard import Guard, RepetitionDetector, most_frames, speaking_seconds
from support.data import DATA

FRAME_RATE = 12.5


def frame(number: int) -> np.ndarray:
    return np.full(16, number, np.int32)


def noticed(numbers: list[int]) -> tuple[int, int] | None:
    """The frame at which repetition is noticed, counted from 1, and the length of the cycle."""
    detector = RepetitionDetector()
    for count, number in enumerate(numbers, start=1):
        found = detector.add(frame(number))
        if found is not None:
            return count, found
    return None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Huh?", (0.3, 0.6)),
        ("嗯？", (0.2, 0.5)),
        ("The quick brown fox jumps over the lazy dog.", (2.5, 5.0)),
        ("今天天气很好，我们去公园散步吧。", (2.5, 5.0)),
        ("오늘은 날씨가 좋습니다.", (2.0, 4.0)),
        ("1234567890", (3.0, 6.0)),
        ("∑ ± √ 😀", (1.5, 4.0)),
        ("", (0.0, 0.0)),
    ],
)
def test_the_estimate_is_about_right(text: str, seconds: tuple[float, float]) -> None:
    assert seconds[0] <= speaking_seconds(text) <= seconds[1]


def test_every_text_has_time_to_begin_and_to_end() -> None:
    assert most_frames("", FRAME_RATE) == 50
    assert most_frames("Hi.", FRAME_RATE) > 50


@given(st.text(max_size=60), st.text(max_size=60))
def test_more_text_never_gets_less_time(one: str, other: str) -> None:
    assert most_frames(one + other, FRAME_RATE) >= most_frames(one, FRAME_RATE)


@pytest.mark.parametrize("name", ["one_word", "interjection_zh", "symbols_only", "maths_and_kaomoji"])
def test_reported_texts_end_soon(name: str) -> None:
    text = (DATA / "cases" / f"{name}.txt").read_text(encoding="utf-8").strip()
    guard = Guard(text, FRAME_RATE)
    said = 0
    while guard.notice(frame(said)) is None:
        said += 1
    assert said + 1 == guard.most_frames
    assert guard.most_frames / FRAME_RATE < 30


def test_one_frame_over_and_over() -> None:
    assert noticed([1, 2, 3, *[7] * 60]) == (3 + 26, 1)


@pytest.mark.parametrize("length", [2, 3, 8, 9, 20, 32])
def test_a_cycle_over_and_over(length: int) -> None:
    found = noticed(list(islice(cycle(range(length)), 200)))
    assert found is not None
    count, seen = found
    assert seen == length
    assert count == length + max(25, 3 * length)


@pytest.mark.parametrize(
    "numbers",
    [
        list(range(300)),
        [*[1] * 25, *range(2, 100), *[1] * 25],  # two pauses of two seconds
        [number for index in range(100) for number in ([7] * 10 + [index + 100])],
        list(islice(cycle(range(40)), 400)),  # longer than what is looked for
    ],
)
def test_what_is_no_repetition(numbers: list[int]) -> None:
    assert noticed(numbers) is None


def test_all_codes_of_a_frame_count() -> None:
    detector = RepetitionDetector()
    for index in range(100):
        codes = frame(5)
        codes[15] = index
        assert detector.add(codes) is None


@given(st.integers(1, 32), st.integers(0, 1000))
def test_cycles_of_any_frames_are_found(length: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 3, length).tolist()
    found = noticed(numbers * 200)
    assert found is not None
    assert length % found[1] == 0 or length % np.gcd(length, found[1]) == 0
    assert found[0] <= length + max(25, 3 * length)
