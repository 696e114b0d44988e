"""Bytes to text: UTF-8 with or without a byte order mark, UTF-16 with one, and nothing else.

The same rules hold for a whole input (`decode_text`) and for lines as they arrive (`speakable_lines`), on every
platform. Whatever is not text is an error that names the byte, never a guess.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import TextError, UsageError


@dataclass(frozen=True)
class _Encoding:
    name: str
    label: str
    mark: bytes
    decode: Callable[[bytes, str, bool], tuple[str, int]]


_UTF8 = _Encoding("utf-8", "UTF-8", codecs.BOM_UTF8, codecs.utf_8_decode)
_UTF16 = (
    _Encoding("utf-16-le", "UTF-16", codecs.BOM_UTF16_LE, codecs.utf_16_le_decode),
    _Encoding("utf-16-be", "UTF-16", codecs.BOM_UTF16_BE, codecs.utf_16_be_decode),
)
_BYTE_ORDER_MARK = "\ufeff"
_READ_SIZE = 1 << 16


class Line(NamedTuple):
    """One line of the input that has something to say, without its line end."""

    number: int
    """Counted from 1, empty lines included."""
    text: str


class IncrementalDecoder:
    """Decode text that arrives in pieces, keeping count of bytes for error messages."""

    def __init__(self, source: str = "text"):
        """`source` is what error messages call the input."""
        self._source = source
        self._encoding: _Encoding | None = None
        self._pending = b""
        self._offset = 0
        self._failure: TextError | None = None

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return the text that `data` completes.

        What precedes an undecodable byte is returned first; the next call raises.

        Raises:
            TextError: the input is no UTF-8 or marked UTF-16, or has a NUL; names the byte offset.
        """
        self.check()
        self._pending += data
        if self._encoding is None:
            self._encoding = self._detect(final)
            if self._encoding is None:
                return ""
        text = self._decode(self._encoding, final)
        if final or not text:
            self.check()
        return text

    def check(self) -> None:
        """Raise the error that the bytes after the text returned so far have, if any."""
        if self._failure:
            raise self._failure

    def _detect(self, final: bool) -> _Encoding | None:
        head = self._pending[:3]
        candidates = (_UTF8, *_UTF16)
        for encoding in candidates:
            if head.startswith(encoding.mark):
                self._consume(len(encoding.mark))
                return encoding
        could_still_be_a_mark = any(encoding.mark.startswith(head) for encoding in candidates)
        return None if could_still_be_a_mark and not final else _UTF8

    def _decode(self, encoding: _Encoding, final: bool) -> str:
        try:
            text, used = encoding.decode(self._pending, "strict", final)
        except UnicodeDecodeError as error:
            used = error.start
            text, _ = encoding.decode(self._pending[:used], "strict", False)
            self._fail(self._offset + used, f"byte 0x{self._pending[used]:02X} is not valid {encoding.label}")
        nul = text.find("\0")
        if nul >= 0:
            text = text[:nul]
            self._fail(self._offset + len(text.encode(encoding.name)), "NUL, which no text contains")
        self._consume(used)
        return text

    def _fail(self, offset: int, reason: str) -> None:
        self._failure = TextError(
            f"{self._source}: {reason} (at byte offset {offset}); expected UTF-8, or UTF-16 with a byte order mark"
        )

    def _consume(self, count: int) -> None:
        self._pending = self._pending[count:]
        self._offset += count


def decode_text(data: bytes, source: str = "text") -> str:
    """Return `data` as text, every line end as a single newline.

    Raises:
        TextError: not UTF-8 or marked UTF-16, or a NUL inside; names the byte offset.
    """
    text = IncrementalDecoder(source).feed(data, final=True)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(_without_mark(line) for line in lines)


def decode_speech(data: bytes, source: str = "text") -> str:
    """Return `data` as text to be spoken: decoded, without white space around it.

    Raises:
        TextError: see `decode_text`.
        UsageError: there is nothing to say.
    """
    text = decode_text(data, source).strip()
    if not is_speakable(text):
        raise UsageError(
            f"{source} has nothing to say: {'it is empty' if not data else 'only white space in it'}"
        )
    return text


def is_speakable(text: str) -> bool:
    """Tell whether `text` has anything but white space, control and format characters."""
    return any(unicodedata.category(character)[0] not in "ZC" for character in text)


def speakable_lines(read: Callable[[int], bytes], source: str = "text") -> Iterator[Line]:
    """Yield each line with something to say as soon as it is complete.

    Args:
        read: returns up to that many bytes as soon as there are any, b"" at the end (`BufferedReader.read1`).
        source: what error messages call the input.

    Raises:
        TextError: see `decode_text`; the lines before the bad byte's come first.
    """
    decoder = IncrementalDecoder(source)
    number, rest, final = 0, "", False
    while not final:
        data = read(_READ_SIZE)
        final = not data
        # A carriage return at the end of a piece may be half a line end, so only newlines complete a line.
        *complete, rest = (rest + decoder.feed(data, final)).split("\n")
        if final:
            complete.append(rest)
        for text in complete:
            for part in text.removesuffix("\r").split("\r"):
                number += 1
                line = _without_mark(part).strip()
                if is_speakable(line):
                    yield Line(number, line)
        decoder.check()


def _without_mark(line: str) -> str:
    # Joined files carry the mark of each at the start of a line.
    return line.removeprefix(_BYTE_ORDER_MARK)
