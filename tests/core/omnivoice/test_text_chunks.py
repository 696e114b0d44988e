"""Text before the tokenizer: chunks, punctuation, combination, lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.omnivoice.text_chunks import (
    NONVERBAL_TAGS,
    add_punctuation,
    chunk_text,
    combine_text,
    divide_long,
    join_lines,
    split_tags,
)
from support.data import DATA, golden_json
from support.steps import counted

SPEECH = st.text(st.sampled_from("abZ.!?,;:'\"()[]… \n。，「」你好はน3é\u0301👍\u200d"), max_size=120)
ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def test_chunks_are_those_of_the_official_package() -> None:
    for case in golden_json("omnivoice_text")["chunks"]:
        assert chunk_text(case["text"], case["chunk_len"], case["min_chunk_len"]) == case["out"], case


def test_punctuation_is_that_of_the_official_package() -> None:
    for case in golden_json("omnivoice_text")["add_punctuation"]:
        assert add_punctuation(case["text"]) == case["out"], case


def test_combination_is_that_of_the_official_package() -> None:
    for case in golden_json("omnivoice_text")["combine_text"]:
        assert combine_text(case["text"], case["ref"]) == case["out"], case


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("[laughter]", ["[laughter]"]),
        ("a [sigh] b", ["a ", "[sigh]", " b"]),
        ("[laughter][laughter]!", ["[laughter]", "[laughter]", "!"]),
        ("[unknown] [Laughter]", ["[unknown] [Laughter]"]),
    ],
)
def test_tags_stand_alone(text: str, pieces: list[str]) -> None:
    assert split_tags(text) == pieces


@given(parts=st.lists(st.sampled_from([*NONVERBAL_TAGS, "a", "[", "]", " "]), max_size=20))
def test_tags_are_cut_out_and_nothing_is_lost(parts: list[str]) -> None:
    pieces = split_tags("".join(parts))
    assert "".join(pieces) == "".join(parts)
    assert sum(piece in NONVERBAL_TAGS for piece in pieces) == sum(part in NONVERBAL_TAGS for part in parts)


@given(text=SPEECH | ANYTHING, limit=st.integers(-1, 60), shortest=st.none() | st.integers(0, 9))
def test_no_text_is_lost_or_said_twice(text: str, limit: int, shortest: int | None) -> None:
    chunks = chunk_text(text, limit, shortest)
    assert "".join("".join(chunks).split()) == "".join(text.split())
    assert all(chunk and chunk == chunk.strip() for chunk in chunks)


@given(text=SPEECH, limit=st.integers(1, 30), longest=st.integers(1, 40))
def test_divided_chunks_hold_every_character(text: str, limit: int, longest: int) -> None:
    chunks = chunk_text(text, limit)
    divided = list(divide_long(chunks, longest))
    assert "".join("".join(divided).split()) == "".join("".join(chunks).split())
    if all(len(chunk) <= longest for chunk in chunks):
        assert divided == chunks


@pytest.mark.parametrize("name", ["no_punctuation_long", "long_chapter", "three_sentences", "many_lines"])
def test_reported_long_texts_are_covered_in_short_pieces(name: str) -> None:
    text = join_lines((DATA / "cases" / f"{name}.txt").read_text("utf-8"))
    pieces = list(divide_long(chunk_text(text, 200), 400))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(len, pieces)) <= 400


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("", ""),
        ("one line", "one line"),
        ("A sentence over\r\ntwo lines.", "A sentence over two lines."),
        ("  indented\n\tand trailing  \n", "indented and trailing"),
        ("Chapter One\n\nIt was late.", "Chapter One. It was late."),
        ("It ended.\n \n\n\nIt began.", "It ended. It began."),
        ("第一章\n\n天黑了，\n下雨了。", "第一章。天黑了，下雨了。"),
        ("これは\n本です。", "これは本です。"),
        ("英文\nEnglish\n中文", "英文 English 中文"),
        ("a well-\nknown word", "a well-known word"),
        ("He left -\nand came back", "He left - and came back"),
        ("Anne-\nMarie", "Anne- Marie"),
        ("한국어\n문장", "한국어 문장"),
    ],
)
def test_lines_are_joined_as_a_reader_would(text: str, joined: str) -> None:
    assert join_lines(text) == joined


@given(text=SPEECH | ANYTHING)
def test_joining_leaves_one_line_with_all_of_its_text(text: str) -> None:
    joined = join_lines(text)
    assert not set(joined) & set("\r\n\u2028\u2029")
    kept = iter("".join(joined.split()))
    assert all(character in kept for character in "".join(text.split()))


def test_the_lines_of_a_book_are_joined_in_steps_that_grow_with_them() -> None:
    lines = "some words and more\n" * 3000
    joined, steps = counted(lambda: join_lines(lines))
    assert joined == " ".join(["some words and more"] * 3000)
    assert counted(lambda: join_lines(2 * lines))[1] < 2.1 * steps


@pytest.mark.parametrize(
    ("lines", "joined"), [("a\n-\nb", "a - b"), ("a-\nb", "a-b"), ("ab\n\n-\nc", "ab. - c")]
)
def test_short_lines_are_joined_by_what_stands_before_them(lines: str, joined: str) -> None:
    assert join_lines(lines) == joined
