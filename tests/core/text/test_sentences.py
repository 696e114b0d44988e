"""Cutting text into sentences and pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.text.sentences import split_sentences, split_text, spoken_words
from support.data import DATA

CASES = DATA / "cases"


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hello there.", "How are you?", "Fine!"],
        ["Mr. Smith met Dr. Jones at 3 p.m. on Main St. Paul's.", "They talked."],
        ["It costs 3.50 dollars.", "Version 2.0.1 is out."],
        ["See e.g. Fig. 3 and No. 5.", "No.", "Then stop."],
        ["J. R. R. Tolkien wrote it.", "I did not."],
        ['He said "Stop!" and left.', "“Why?”", "Nobody knew."],
        ["Visit example.com/a.html today.", "It is free."],
        ["Wait... what?!", "Really?"],
        ["He thought… and slept.", "The end…", "Or not."],
        ["你好。", "今天天气很好！", "是吗？", "“是。”", "好"],
        ["これは本です。", "「そうですか。」", "はい。"],
        ["नमस्ते।", "आप कैसे हैं?"],
        ["1. First item is short.", "2. Second one too."],
        ["A line without a stop", "Another paragraph"],
        ["Das ist z.B. ein Satz.", "Und noch einer."],
        ["We won.", "(Really.)", "Yes."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    spaced = "\n\n" if "paragraph" in sentences[-1] else " "
    text = spaced.join(sentences)
    assert split_sentences(text) == sentences
    if not sentences[0].isascii():
        assert split_sentences("".join(sentences[:1]) + spaced + spaced.join(sentences[1:])) == sentences


def test_wide_stops_need_no_space() -> None:
    assert split_sentences("你好。今天好！是吗？") == ["你好。", "今天好！", "是吗？"]


def test_a_hard_wrapped_line_ends_no_sentence() -> None:
    assert split_sentences("One sentence\nover two lines. Next.") == [
        "One sentence\nover two lines.",
        "Next.",
    ]


def test_whole_sentences_share_a_piece_up_to_the_limit() -> None:
    assert split_text("One two three. Four five. Six seven eight. Nine.", 5) == [
        "One two three. Four five.",
        "Six seven eight. Nine.",
    ]


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    text = "When the rain had stopped at last, the children ran out into the garden"
    assert split_text(text, 10) == [
        "When the rain had stopped at last,",
        "the children ran out into the garden",
    ]


def test_a_sentence_without_punctuation_is_cut_into_equal_parts() -> None:
    pieces = split_text(" ".join(f"w{number}" for number in range(41)), 20)
    assert [spoken_words(piece) for piece in pieces] == pytest.approx([14] * 3, abs=2)


def test_a_decimal_number_is_never_cut() -> None:
    pieces = split_text("It is 3.14159 or 2,718.28 then " * 20, 8)
    assert " ".join(pieces).split() == ("It is 3.14159 or 2,718.28 then " * 20).split()


def test_text_without_spaces_is_cut_between_characters() -> None:
    text = "我们沿着河边走了很久很久" * 20
    pieces = split_text(text, 20)
    assert "".join(pieces) == text
    assert all(spoken_words(piece) <= 20 for piece in pieces)


def test_marks_stay_with_their_letter() -> None:
    pieces = split_text("ก็" * 200, 10)
    assert "".join(pieces) == "ก็" * 200
    assert all(piece[0] == "ก" for piece in pieces)


def test_spoken_words() -> None:
    assert spoken_words("Hello there, friend.") == 3
    assert spoken_words("你好吗") == 2
    assert spoken_words("x" * 100) == 7
    assert spoken_words("") == 0


def test_the_limit_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split_text("a", 0)


def test_nothing_gives_nothing() -> None:
    assert split_text("", 5) == []
    assert split_sentences(" \n ") == []


SPEECH = st.text(st.sampled_from("abcZ.!?,;:'\"()… \n。，你好はนี้3-—é\u0301👍\u200d"), max_size=200)


@given(text=SPEECH | st.text(st.characters(exclude_categories=["Cs"]), max_size=100), limit=st.integers(1, 8))
def test_no_word_is_lost_or_said_twice(text: str, limit: int) -> None:
    pieces = split_text(text, limit)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert all(spoken_words(piece) <= limit or len(piece) < 30 * limit for piece in pieces)


@given(words=st.lists(st.sampled_from(["river", "3.5", "Mr.", "light,", "it.", "no", "end!"]), max_size=60))
def test_words_between_spaces_are_never_cut(words: list[str]) -> None:
    pieces = split_text(" ".join(words), 4)
    assert [word for piece in pieces for word in piece.split()] == words
    assert all(spoken_words(piece) <= 4 for piece in pieces)


@pytest.mark.parametrize("name", ["no_punctuation_long", "long_chapter", "three_sentences", "many_lines"])
def test_reported_long_texts_are_covered(name: str) -> None:
    text = (CASES / f"{name}.txt").read_text("utf-8")
    pieces = split_text(text, 20)
    assert [word for piece in pieces for word in piece.split()] == text.split()
    assert all(spoken_words(piece) <= 20 for piece in pieces)


@pytest.mark.parametrize(
    "text",
    [
        "word" * 50_000,
        "e.g. " * 20_000,
        "." * 100_000,
        "a\n" * 50_000,
        "文" * 100_000,
        "e\u0301" * 50_000,
        "This is one of many sentences. " * 5_000,
        "Dr. " * 8_000,
        "." * 40_000 + "x",
        "a" + " " * 40_000 + "b. C",
    ],
    ids=[
        "one word",
        "abbreviations",
        "stops",
        "lines",
        "han",
        "marks",
        "sentences",
        "doctors",
        "dots",
        "spaces",
    ],
)
def test_a_long_text_of_any_kind_is_cut_within_a_moment(text: str) -> None:
    """Where every cut looks at all of the text, each of them takes minutes."""
    whole = "".join(text.split())
    assert "".join("".join(split_sentences(text)).split()) == whole
    assert "".join("".join(split_text(text, 20)).split()) == whole
