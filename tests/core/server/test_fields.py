"""The fields of a body check themselves, and say in a schema what they accept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.server.bodies import parse_object
from ggtts.core.server.errors import ApiError
from ggtts.core.server.fields import Choice, Number, Text, VoiceName, Whole, check_fields, object_schema

FIELDS = (
    Text("input", "Text.", required=True, longest=10),
    Text("about", "Text that may be missing, or blank.", longest=10),
    Number("speed", "Speed.", least=0.25, most=4),
    Number("top_p", "Mass.", least=0, most=1, above=True),
    Whole("seed", "Seed.", least=-(2**63), most=2**63 - 1),
    Choice("kind", "Kind.", words=("mp3", "wav")),
    VoiceName("voice", "Voice."),
)


def refused(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as failure:
        check_fields({"input": "a", **body}, FIELDS)
    assert failure.value.status == 400
    return failure.value


def test_values_come_back_as_they_are_used() -> None:
    body = {
        "input": " a ",
        "speed": 1,
        "seed": 5.0,
        "kind": "wav",
        "voice": {"id": " eva "},
        "top_p": None,
        "unknown": [],
    }
    assert check_fields(body, FIELDS) == {
        "input": " a ",
        "speed": 1.0,
        "seed": 5,
        "kind": "wav",
        "voice": "eva",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input", 1),
        ("input", " \n"),
        ("input", "x" * 11),
        ("input", "\ud800"),
        ("input", "a\0b"),
        ("input", "\0"),
        ("about", "a\0b"),
        ("speed", "1"),
        ("speed", True),
        ("speed", 0.2),
        ("speed", float("inf")),
        ("speed", 10**400),
        ("top_p", 0),
        ("seed", 1.5),
        ("seed", 2**63),
        ("seed", float("inf")),
        ("seed", False),
        ("kind", "ogg"),
        ("kind", ["mp3"]),
        ("voice", 3),
        ("voice", {"name": "eva"}),
        ("voice", "x" * 1000),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, value: Any) -> None:
    error = refused(**{name: value})
    assert error.param == name
    assert str(error).startswith(name)
    assert len(str(error)) < 250


def test_a_missing_field_is_told() -> None:
    with pytest.raises(ApiError, match="input is missing"):
        check_fields({"input": None}, FIELDS)


def test_the_schema_accepts_what_the_fields_accept() -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    validator = jsonschema.validator_for(object_schema(FIELDS))

    @given(
        st.fixed_dictionaries(
            {"input": st.text(max_size=12)},
            optional={
                "about": st.text(max_size=12),
                "speed": st.floats(0, 5) | st.integers(-1, 5) | st.none() | st.booleans(),
                "top_p": st.sampled_from([0, 0.0, 0.5, 1, 1.5]),
                "seed": st.integers(-(2**64), 2**64) | st.text(max_size=2),
                "kind": st.sampled_from(["mp3", "ogg", None, 1]),
                "voice": st.text(max_size=3) | st.dictionaries(st.sampled_from(["id"]), st.text(max_size=3)),
            },
        )
    )
    def agree(body: dict[str, Any]) -> None:
        try:
            check_fields(body, FIELDS)
            accepted = True
        except ApiError:
            accepted = False
        assert validator.is_valid(body) == accepted

    agree()
    blanks = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    for text in [
        *blanks,
        "\ufeff",
        "\u200b",
        "\u180e",
        "\0",
        "a\0",
        " \0a\n",
        "".join(blanks),
        f"{''.join(blanks)}a",
    ]:
        agree.hypothesis.inner_test({"input": text})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "no JSON"),
        (b"{} {}", "no JSON"),
        (b"[]", "a JSON list"),
        (b"3", "a JSON number"),
        (b"null", "a JSON null"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": ' + b"1" * 5000 + b"}", "no JSON"),
        (b'{"a": "\xff"}', "no UTF-8: byte 7"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
    ],
    ids=range(13),
)
def test_what_is_no_json_object_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=message) as failure:
        parse_object(body)
    assert failure.value.status == 400


def test_a_byte_order_mark_is_no_part_of_json() -> None:
    assert parse_object(b"\xef\xbb\xbf" + json.dumps({"input": "ä"}, ensure_ascii=False).encode()) == {
        "input": "ä"
    }
