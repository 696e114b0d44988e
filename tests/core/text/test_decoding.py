"""Bytes to text, whole and line by line."""

import codecs
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.errors import TextError, UsageError
from ggtts.core.text.decoding import (
    IncrementalDecoder,
    decode_speech,
    decode_text,
    is_speakable,
    speakable_lines,
)
from support.data import DATA

CASES = DATA / "cases"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))
ENCODERS: list[Callable[[str], bytes]] = [
    lambda text: text.encode(),
    lambda text: codecs.BOM_UTF8 + text.encode(),
    lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
]


def pieces(*data: bytes) -> Callable[[int], bytes]:
    """A read function that returns these pieces and then the end."""
    remaining = iter(data)
    return lambda size: next(remaining, b"")


def texts(*data: bytes) -> list[str]:
    return [line.text for line in speakable_lines(pieces(*data))]


@pytest.mark.parametrize("encode", ENCODERS)
@given(text=TEXT, size=st.integers(1, 5))
def test_every_encoding_gives_the_text_however_it_is_cut(
    encode: Callable[[str], bytes], text: str, size: int
) -> None:
    data = encode(text)
    assert decode_text(data) == text.replace("\r\n", "\n").replace("\r", "\n")
    decoder = IncrementalDecoder()
    parts = [decoder.feed(data[start : start + size]) for start in range(0, len(data), size)]
    assert "".join([*parts, decoder.feed(b"", final=True)]) == text


@pytest.mark.parametrize("encode", ENCODERS)
@given(text=TEXT, size=st.integers(1, 7))
def test_lines_do_not_depend_on_how_the_input_is_cut(
    encode: Callable[[str], bytes], text: str, size: int
) -> None:
    data = encode(text)
    cut = [data[start : start + size] for start in range(0, len(data), size)]
    expected = [line.strip() for line in decode_text(data).split("\n")]
    assert texts(*cut) == [line for line in expected if is_speakable(line)]


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"abc\xffdef", 3),
        (b"\xef\xbb\xbfab\xc3(", 5),
        (b"abc\xc3", 3),
        (b"ab\0c", 2),
        (codecs.BOM_UTF16_LE + "aé".encode("utf-16-le") + b"\x00\xd8a\x00", 6),
        (codecs.BOM_UTF16_LE + "a\0".encode("utf-16-le"), 4),
        (codecs.BOM_UTF16_BE + "a".encode("utf-16-be") + b"\x00", 4),
        ("né".encode("latin-1"), 1),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), 2),
        ("hello".encode("utf-16-le"), 1),
    ],
)
def test_what_is_no_text_is_an_error_that_names_the_byte(data: bytes, offset: int) -> None:
    with pytest.raises(TextError, match=rf"speech\.txt: .*byte offset {offset}\)"):
        decode_text(data, "speech.txt")
    (line,) = speakable_lines(pieces(*(bytes([byte]) for byte in data)), "speech.txt")
    assert (line.number, line.text) == (1, "")
    assert f"byte offset {offset})" in str(line.problem)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("encode", "bad", "offset"),
    [
        (ENCODERS[0], b"th\xffree", 11),
        (ENCODERS[0], b"th\xc3", 11),
        (ENCODERS[1], b"th\0ree", 14),
        (ENCODERS[2], b"t\0\x0a\xd8e\0", 20),
        (ENCODERS[3], b"\0t\xdc\x0a", 20),
        (ENCODERS[2], "t\0".encode("utf-16-le"), 20),
    ],
)
def test_a_line_that_is_no_text_does_not_stop_the_others(
    encode: Callable[[str], bytes], bad: bytes, offset: int, size: int
) -> None:
    """The bad bytes look like half a newline in UTF-16: lines are cut between characters."""
    before, after = encode("oné\ntwo\n"), encode("\nĊ\r\nfour")
    data = before + bad + after.removeprefix(encode(""))
    lines = list(speakable_lines(pieces(*(data[at : at + size] for at in range(0, len(data), size)))))
    assert [(line.number, line.text) for line in lines] == [
        *((1, "oné"), (2, "two"), (3, ""), (4, "Ċ"), (5, "four")),
    ]
    assert [line.number for line in lines if line.problem] == [3]
    assert f"byte offset {offset})" in str(lines[2].problem)


def test_an_undecodable_line_is_told_with_its_offset_behind_other_line_ends() -> None:
    lines = list(speakable_lines(pieces(b"a\rb\xff\rc\r\nd\r")))
    assert [(line.number, line.text) for line in lines] == [(1, "a"), (2, ""), (3, "c"), (4, "d")]
    assert "byte offset 3)" in str(lines[1].problem)


def test_a_line_comes_out_as_soon_as_it_is_complete() -> None:
    asked = []

    def read(size: int) -> bytes:
        asked.append(size)
        return [b"one\n", b"tw", b"o\r\n\r\n", b"three", b""][len(asked) - 1]

    lines = speakable_lines(read)
    assert next(lines)[:2] == (1, "one")
    assert len(asked) == 1
    assert next(lines)[:2] == (2, "two")
    assert len(asked) == 3
    assert [line[:2] for line in lines] == [(4, "three")]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_line_that_is_too_long_is_told_and_does_not_stop_the_others(
    encode: Callable[[str], bytes], size: int
) -> None:
    data = encode("one\n" + 50 * "word " + "\nthree\n" + 32 * "x" + "\r\n" + 70 * "y")
    cut = pieces(*(data[at : at + size] for at in range(0, len(data), size)))
    longest = 35 * len(encode("aa").removeprefix(encode("a")))
    lines = list(speakable_lines(cut, "speech.txt", longest))
    assert [line[:2] for line in lines] == [(1, "one"), (2, ""), (3, "three"), (4, 32 * "x"), (5, "")]
    assert [str(line.problem) for line in lines if line.problem] == 2 * [
        f"speech.txt has no line end in {longest} bytes: that is no text to be spoken"
    ]


def test_a_line_that_never_ends_is_told_once_and_takes_no_memory() -> None:
    read, block = 0, bytes(1 << 20)

    def endless(size: int) -> bytes:
        nonlocal read
        read += len(block)
        return block if read < 1 << 28 else b""

    lines = speakable_lines(endless, longest=1 << 22)
    tracemalloc.start()
    try:
        assert next(lines).problem
        assert read == 5 << 20, "it is told when it is too long, not at its end"
        assert list(lines) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe", "\u200b\u3000\x07".encode()]
)
def test_nothing_to_say(data: bytes) -> None:
    with pytest.raises(UsageError, match="nothing to say"):
        decode_speech(data)
    assert texts(data) == []


def test_symbols_are_something_to_say() -> None:
    assert decode_speech(b"?! ...\n") == "?! ..."


def test_joined_files_lose_each_byte_order_mark() -> None:
    data = codecs.BOM_UTF8 + b"one\n" + codecs.BOM_UTF8 + b"two\n"
    assert decode_text(data) == "one\ntwo\n"
    assert texts(data) == ["one", "two"]


@pytest.mark.parametrize("name", ["bom_utf8", "bom_utf16le", "crlf", "no_newline_at_end", "mixed_languages"])
def test_reported_inputs_are_read_as_the_text_they_are(name: str) -> None:
    data = (CASES / f"{name}.txt").read_bytes()
    text = decode_speech(data)
    assert text[0].isalpha()
    assert not {"\r", "\ufeff", "\0"} & set(text)
    assert texts(data) == [line for line in text.split("\n") if line]


@pytest.mark.parametrize(("name", "error"), [("bad_utf8", TextError), ("nul_inside", TextError)])
def test_reported_inputs_that_are_no_text(name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"byte offset \d+"):
        decode_speech((CASES / f"{name}.txt").read_bytes())


@pytest.mark.parametrize("name", ["empty", "whitespace_only"])
def test_reported_inputs_with_nothing_to_say(name: str) -> None:
    with pytest.raises(UsageError, match="nothing to say"):
        decode_speech((CASES / f"{name}.txt").read_bytes())


@pytest.mark.parametrize(("name", "count"), [("many_lines", 12), ("blank_lines", 2), ("three_sentences", 1)])
def test_every_line_is_read(name: str, count: int) -> None:
    assert len(texts((CASES / f"{name}.txt").read_bytes())) == count
