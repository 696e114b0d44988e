"""What the requests of all models have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from ggtts.core.errors import UsageError
from ggtts.core.speech.requests import reference_codes, request_fields, require_codes, require_words


@dataclass(frozen=True)
class Drawing:
    seed: int | None = None
    steps: int = 32


@dataclass(frozen=True)
class Request:
    text: str
    voice: str | None = None
    drawing: Drawing = field(default_factory=Drawing)


def test_options_are_fields_of_the_request_or_of_its_part() -> None:
    found = request_fields({"seed": 7, "voice": "eva"}, Request, "drawing", Drawing())
    assert Request("Hello.", **found) == Request("Hello.", "eva", Drawing(7))
    assert request_fields({}, Request, "drawing", Drawing()) == {}


def test_options_add_to_a_part_that_is_given() -> None:
    given = {"drawing": Drawing(steps=8), "seed": 7}
    assert request_fields(given, Request, "drawing", Drawing()) == {"drawing": Drawing(7, 8)}
    assert given == {"drawing": Drawing(steps=8), "seed": 7}


def test_an_unknown_option_is_told_with_those_that_there_are() -> None:
    with pytest.raises(TypeError, match="unknown option sead; accepted: drawing, seed, steps, voice"):
        request_fields({"sead": 7}, Request, "drawing", Drawing())


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_text_without_words(text: str) -> None:
    with pytest.raises(UsageError, match="nothing to say"):
        require_words(text)


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (np.zeros((3, 4)), "have 4 codebooks, this model has 2"),
        (np.array([[0, 64]]), "range from 0 to 64, this model has codes 0 to 63"),
        (np.array([[-1, 5]]), "range from -1 to 5"),
    ],
)
def test_codes_of_another_model(codes: np.ndarray, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        require_codes(codes.astype(np.int32), 2, 64)


def test_codes_of_the_model() -> None:
    require_codes(np.array([[0, 63]], np.int32), 2, 64)


def test_codes_of_a_voice_cannot_change() -> None:
    given = np.arange(6).reshape(3, 2)
    codes = reference_codes(given)
    assert codes.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        codes[0, 0] = 1
    given[0, 0] = 5
    assert codes[0, 0] == 0


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((2, 2)), "not float64 of shape"),
        (np.zeros(4, np.int32), r"of shape \(4,\)"),
        (np.zeros((0, 4), np.int32), "of shape"),
        (np.full((1, 2), 2**32 + 5), "codes from 4294967301 to 4294967301 are none"),
    ],
)
def test_what_are_no_codes(codes: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reference_codes(codes)
