"""How long a text takes."""

import sys
import unicodedata

import pytest

from ggtts.core.errors import UsageError
from ggtts.core.omnivoice.duration import (
    Pace,
    character_weight,
    chunk_limit,
    estimate,
    estimate_frames,
    spoken_length,
    text_weight,
)
from support.data import golden_json

RATE = 25.0
TEXT = "Hello, world! The weather is nice today."
CASES = golden_json("omnivoice_text")["duration"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case["text"][:20]))
def test_estimates_are_those_of_the_official_package(case: dict[str, object]) -> None:
    text = str(case["text"])
    assert text_weight(text) == case["weight"]
    assert estimate(text) == case["raw"]
    assert estimate_frames(text) == case["frames"]
    assert estimate_frames(text, speed=1.5) == case["frames_speed_1_5"]
    assert estimate_frames(text, Pace("Nice to meet you.", 60)) == case["frames_ref"]
    assert estimate_frames(text, Pace("你好，世界。", 33)) == case["frames_ref_zh"]


def test_every_code_point_weighs_what_it_does_in_the_official_package() -> None:
    golden = golden_json("unicode")
    differing = 0
    runs = golden["duration_weight_runs"]
    for (start, weight), (end, _) in zip(runs, [*runs[1:], (sys.maxunicode + 1, None)], strict=True):
        if weight != "-":
            differing += sum(character_weight(chr(code)) != weight for code in range(start, end))
    # The official package, too, asks the Unicode data of the Python that runs it.
    same_data = unicodedata.unidata_version == golden["python_unicodedata"]
    assert differing == 0 if same_data else differing < 2000


def test_a_pace_without_transcript_is_the_default_one() -> None:
    assert estimate_frames(TEXT, Pace("", 60)) == estimate_frames(TEXT) == 59


def test_a_transcript_with_nothing_to_say_gives_one_frame() -> None:
    assert estimate_frames(TEXT, Pace("\u0301", 60)) == 1


def test_speed_and_duration() -> None:
    assert spoken_length(TEXT, RATE).frames == 59
    assert spoken_length(TEXT, RATE, speed=1.6).frames == 37
    fixed = spoken_length(TEXT, RATE, duration=10)
    assert (fixed.frames, fixed.fixed, fixed.speed) == (250, True, 59 / 250)
    assert spoken_length(TEXT, RATE, Pace("Hi.", 10), duration=0.001).frames == 1


def test_short_text_without_reference_has_a_floor_and_a_warning() -> None:
    short = spoken_length("Hi", RATE)
    assert short.frames == 37
    assert "1.5 s" in str(short.warning)
    with_reference = spoken_length("Hi", RATE, Pace("Nice to meet you.", 25))
    assert with_reference.frames == 20
    assert with_reference.warning is None
    assert spoken_length(TEXT, RATE).warning is None


def test_a_duration_that_was_asked_for_is_kept_with_a_warning() -> None:
    short = spoken_length(TEXT, RATE, duration=1.0)
    assert short.frames == 25
    assert "1.0 s" in str(short.warning)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_speed_and_duration_are_positive(value: float) -> None:
    with pytest.raises(UsageError, match="speed must be a positive"):
        spoken_length(TEXT, RATE, speed=value)
    with pytest.raises(UsageError, match="duration must be a positive"):
        spoken_length(TEXT, RATE, duration=value)


def test_speed_and_duration_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="both"):
        spoken_length(TEXT, RATE, speed=1, duration=1)


def test_characters_per_chunk() -> None:
    assert chunk_limit(TEXT, 59, RATE, 2.5) == int(2.5 * 25 / (59 / 40)) == 42
    assert chunk_limit(TEXT, 5900, RATE, 0.01) == 1
