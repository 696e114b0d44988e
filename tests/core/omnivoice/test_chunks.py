"""Long texts in chunks, and texts that are still arriving."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.errors import TextError, UsageError
from ggtts.core.omnivoice.arriving import arriving_chunks, complete_sentences
from ggtts.core.omnivoice.chunks import StreamedChunks
from ggtts.core.omnivoice.duration import estimate_frames
from ggtts.core.omnivoice.requests import Chunking
from support.data import DATA

SENTENCE = "This sentence takes about three seconds, give or take."


def seconds(text: str) -> float:
    return estimate_frames(text) / 25


class Typist:
    """Types parts of a text, and rests between some of them."""

    def __init__(self, *parts: str | bytes | None) -> None:
        """None is a rest."""
        self._parts = [part.encode() if isinstance(part, str) else part for part in parts]

    def has_arrived(self) -> bool:
        return not self._parts or self._parts[0] is not None

    def read(self, size: int) -> bytes:
        while self._parts and self._parts[0] is None:
            self._parts.pop(0)
        return self._parts.pop(0) or b"" if self._parts else b""

    def chunks(self, chunking: Chunking | None = None) -> Iterator[str]:
        return arriving_chunks(
            self.read, self.has_arrived, StreamedChunks(chunking or Chunking()), "the text"
        )


def test_the_first_chunk_is_short_and_later_ones_grow() -> None:
    chunks = list(StreamedChunks(Chunking()).all_of([SENTENCE] * 20))
    lengths = [seconds(chunk) for chunk in chunks]
    assert lengths[0] < 4
    assert lengths[0] < lengths[1] < lengths[2]
    assert max(lengths) < 2 * 15
    assert " ".join(chunks) == " ".join([SENTENCE] * 20)


LONG_SENTENCE = (
    "When it had rained for 1,000 days without an end, the people of the village built boats of the doors of their"
    " houses, and left."
)


def test_a_long_first_sentence_is_cut_at_a_comma_and_no_later_one() -> None:
    chunks = list(StreamedChunks(Chunking()).all_of([LONG_SENTENCE, LONG_SENTENCE]))
    assert chunks == [
        "When it had rained for 1,000 days without an end,",
        "the people of the village built boats of the doors of their houses, and left.",
        LONG_SENTENCE,
    ]
    assert 2 <= seconds(chunks[0]) < 4


@pytest.mark.parametrize(
    "sentence",
    [
        "This is long enough, but hardly too long at all.",
        "When it had rained for 1,000 days without an end the people of the village built boats of the doors.",
        "When it had rained for a thousand days in the land without an end, they all left.",
    ],
)
def test_a_first_sentence_that_cannot_be_cut_well_stays_whole(sentence: str) -> None:
    assert list(StreamedChunks(Chunking()).all_of([sentence])) == [sentence]


def test_a_long_first_sentence_in_chinese() -> None:
    sentence = "很久以前有一个小小的村庄，村里的人们每天都在田里辛苦地工作，直到太阳下山才回家。"
    chunks = list(StreamedChunks(Chunking()).all_of([sentence]))
    assert chunks[0] == "很久以前有一个小小的村庄，"
    assert "".join(chunks) == sentence


def test_tiny_sentences_are_put_together() -> None:
    chunks = list(StreamedChunks(Chunking()).all_of(["Yes.", "No.", "Well.", "I do not know.", "Who knows?"]))
    assert chunks[0].startswith("Yes. No.")
    assert seconds(chunks[0]) >= 2


def test_without_chunking_each_sentence_is_a_chunk() -> None:
    assert list(StreamedChunks(Chunking(0.0)).all_of(["Yes.", "No."])) == ["Yes.", "No."]


def test_a_sentence_that_is_far_too_long_is_cut_between_words() -> None:
    words = " ".join(f"word{number}" for number in range(400))
    chunks = list(StreamedChunks(Chunking()).all_of([words]))
    assert " ".join(chunks) == words
    assert max(map(seconds, chunks)) < 25


def test_what_is_complete_is_given_out_when_nothing_more_has_arrived() -> None:
    typist = Typist("Hello", " there.", " How", None, " are you?", None)
    chunks = typist.chunks()
    assert next(chunks) == "Hello there."
    assert list(chunks) == ["How are you?"]


def test_what_arrives_together_is_spoken_together() -> None:
    first = next(Typist("Hello there. How are you? Well, I hope.").chunks())
    assert first.startswith("Hello there. How are you?")


def test_a_sentence_that_does_not_end_is_not_waited_for() -> None:
    text = "word " * 150
    pieces, rest = complete_sentences(text)
    assert pieces
    assert max(map(len, pieces)) <= 300
    assert " ".join([*pieces, rest]).split() == text.split()
    assert rest.endswith("word ")
    assert complete_sentences("word " * 100) == ([], "word " * 100)


@pytest.mark.parametrize(
    ("text", "complete", "rest"),
    [
        ("Hello.", [], "Hello."),
        ("Hello.\n", ["Hello."], "\n"),
        ("Hello. How are", ["Hello."], "How are"),
        ("He met Mr. ", [], "He met Mr. "),
        ("It is 3.", [], "It is 3."),
        ("你好。今天", ["你好。"], "今天"),
        ("A title\n\nThe text", ["A title."], "The text"),
        ("", [], ""),
    ],
)
def test_complete_sentences(text: str, complete: list[str], rest: str) -> None:
    assert complete_sentences(text) == (complete, rest)


@pytest.mark.parametrize("space", [" " * 700, "\n" * 700, " \n" * 1000])
@pytest.mark.parametrize("text", ["Hello.", ""])
def test_any_amount_of_white_space(text: str, space: str) -> None:
    assert list(Typist(text + space, None, " \n", "The end.").chunks()) == [
        *filter(None, [text]),
        "The end.",
    ]


def test_words_that_arrive_one_by_one_stay_apart() -> None:
    words = [f"word{number} " for number in range(300)]
    assert " ".join(Typist(*words).chunks()).split() == " ".join(words).split()


@given(st.lists(st.integers(0, 400), max_size=6), st.booleans())
def test_no_word_is_lost_however_the_text_arrives(places: list[int], resting: bool) -> None:
    data = (
        DATA / "cases" / "three_sentences.txt"
    ).read_bytes() + " “Quoted,” he said. 你好。再见！ End".encode()
    cuts = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    parts: list[bytes | None] = []
    for start, end in pairwise(cuts):
        if end > start:
            parts += [data[start:end], *([None] if resting else [])]
    spoken = "".join(Typist(*parts).chunks())
    assert "".join(spoken.split()) == "".join(data.decode().split())


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ([], UsageError, "it is empty"),
        (["  \n", None, "\t"], UsageError, "only white space"),
        ([b"\xff"], TextError, "byte offset 0"),
    ],
)
def test_nothing_to_say(parts: list[str | bytes | None], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(Typist(*parts).chunks())


def test_what_comes_before_a_bad_byte_is_spoken() -> None:
    chunks = Typist(b"Hello there. \xff more").chunks()
    assert next(chunks) == "Hello there."
    with pytest.raises(TextError, match="byte offset 13"):
        next(chunks)


@pytest.mark.parametrize("name", ["crlf", "bom_utf8", "bom_utf16le", "blank_lines", "no_newline_at_end"])
def test_files_are_read_as_the_text_they_are(name: str) -> None:
    spoken = " ".join(Typist((DATA / "cases" / f"{name}.txt").read_bytes()).chunks())
    assert "\r" not in spoken
    assert "\ufeff" not in spoken
    assert "\0" not in spoken
    assert spoken.strip()
