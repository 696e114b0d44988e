"""Voice design: attributes in English and Chinese."""

import pytest

from ggtts.core.errors import UsageError
from ggtts.core.omnivoice.voice_design import CATEGORIES, normalise_instruct, resolve_instruct
from support.data import golden_json

CASES = golden_json("omnivoice_text")["instruct"]
PAIRED = [
    attribute
    for category in CATEGORIES
    for attribute in category.attributes
    if attribute.english and attribute.chinese
]


@pytest.mark.parametrize("case", [case for case in CASES if "out" in case], ids=lambda case: case["text"])
def test_instructions_are_those_of_the_official_package(case: dict[str, object]) -> None:
    assert normalise_instruct(str(case["text"]), bool(case["use_zh"])) == case["out"]


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["text"])
def test_errors_are_those_of_the_official_package(case: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        normalise_instruct(str(case["text"]), bool(case["use_zh"]))
    assert str(caught.value) == case["error"]


@pytest.mark.parametrize("attribute", PAIRED, ids=lambda attribute: attribute.english)
def test_every_pair_is_translated_both_ways(attribute) -> None:
    for name in attribute.names:
        assert normalise_instruct(name.upper(), False) == attribute.english
        assert normalise_instruct(name, True) == attribute.chinese


def test_the_text_decides_the_language() -> None:
    assert resolve_instruct("male, elderly", "Good morning") == "male, elderly"
    assert resolve_instruct("male, elderly", "早上好") == "男，老年"
    assert resolve_instruct("male, british accent", "早上好") == "male, british accent"
    assert resolve_instruct("male, 四川话", "Good morning") == "男，四川话"


@pytest.mark.parametrize("nothing", [None, "", "  ", "None", "none"])
def test_no_instruction(nothing: str | None) -> None:
    assert resolve_instruct(nothing, "text") is None


def test_all_attributes() -> None:
    assert [len(category.attributes) for category in CATEGORIES] == [2, 5, 5, 1, 10, 12]
