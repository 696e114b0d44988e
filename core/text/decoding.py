"""Bytes to text: UTF-8 with or without a byte order mark, UTF-16 with one, and nothing else.

The same rules hold for a whole input (`decode_text`) and for lines as they arrive (`speakable_lines`), on every
platform. Whatever is not text is an error that names the byte, never a guess; of lines it is the error of that line.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import TextError, UsageError
from ..limits import MOST_TEXT_BYTES


@dataclass(frozen=True)
class _Encoding:
    name: str
    label: str
    mark: bytes
    decode: Callable[[bytes, str, bool], tuple[str, int]]

    @property
    def newline(self) -> bytes:
        """The end of a line."""
        return "\n".encode(self.name)

    @property
    def carriage_return(self) -> bytes:
        """What may stand before it, or in its place."""
        return "\r".encode(self.name)


_UTF8 = _Encoding("utf-8", "UTF-8", codecs.BOM_UTF8, codecs.utf_8_decode)
_UTF16 = (
    _Encoding("utf-16-le", "UTF-16", codecs.BOM_UTF16_LE, codecs.utf_16_le_decode),
    _Encoding("utf-16-be", "UTF-16", codecs.BOM_UTF16_BE, codecs.utf_16_be_decode),
)
_BYTE_ORDER_MARK = "\ufeff"
_READ_SIZE = 1 << 16


class Line(NamedTuple):
    """One line of the input that has something to say, without its line end, or that is no text."""

    number: int
    """Counted from 1, empty lines included."""
    text: str
    problem: TextError | None = None
    """Why the line cannot be read; its text is empty then."""


class IncrementalDecoder:
    """Decode text that arrives in pieces, keeping count of bytes for error messages."""

    def __init__(self, source: str = "text", encoding: _Encoding | None = None, offset: int = 0):
        """`source` is what error messages call the input.

        The encoding is found out, unless the text begins in the middle of an input: then it is known, and so is the
        offset of the first byte.
        """
        self._source = source
        self._encoding = encoding
        self._pending = b""
        self._offset = offset
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
            self._encoding = _detected(self._pending, final)
            if self._encoding is None:
                return ""
            if self._pending.startswith(self._encoding.mark):
                self._consume(len(self._encoding.mark))
        text = self._decode(self._encoding, final)
        if final or not text:
            self.check()
        return text

    def check(self) -> None:
        """Raise the error that the bytes after the text returned so far have, if any."""
        if self._failure:
            raise self._failure

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


def _detected(head: bytes, final: bool) -> _Encoding | None:
    """Return the encoding of an input that begins with `head`; None if more of it is needed to tell."""
    candidates = (_UTF8, *_UTF16)
    for encoding in candidates:
        if head.startswith(encoding.mark):
            return encoding
    could_still_be_a_mark = any(encoding.mark.startswith(head) for encoding in candidates)
    return None if could_still_be_a_mark and not final else _UTF8


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


def speakable_lines(
    read: Callable[[int], bytes], source: str = "text", longest: int = MOST_TEXT_BYTES
) -> Iterator[Line]:
    """Yield each line with something to say, or that is no text, as soon as it is complete.

    Bytes that are no text are the problem of their line; the next line is read as if nothing had been. So is a line
    that does not end: it is told, and let go of, when it is too long.

    Args:
        read: returns up to that many bytes as soon as there are any, b"" at the end (`BufferedReader.read1`).
        source: what error messages call the input.
        longest: bytes that a line can have.
    """
    for number, part in enumerate(_line_parts(read, longest), start=1):
        try:
            if part.data is None:
                raise TextError(
                    f"{source} has no line end in {longest:,} bytes: that is no text to be spoken"
                )
            text = IncrementalDecoder(source, part.encoding, part.offset).feed(part.data, final=True)
        except TextError as error:
            yield Line(number, "", error)
            continue
        line = _without_mark(text).strip()
        if is_speakable(line):
            yield Line(number, line)


@dataclass(frozen=True)
class _Part:
    """The bytes of a line, without its end, and where they begin in the input; None are too many."""

    data: bytes | None
    offset: int
    encoding: _Encoding


def _line_parts(read: Callable[[int], bytes], longest: int) -> Iterator[_Part]:
    """Yield the lines of an input, as bytes: what is wrong in one is no concern of the next."""
    encoding: _Encoding | None = None
    head, final = b"", False
    while encoding is None and not final:
        data = read(_READ_SIZE)
        head, final = head + data, not data
        encoding = _detected(head[:3], final)
    cutter = _LineCutter(encoding or _UTF8, longest)
    yield from cutter.feed(head)
    while not final:
        data = read(_READ_SIZE)
        final = not data
        yield from cutter.feed(data)
    yield from cutter.end()


class _LineCutter:
    """Cuts bytes into lines, in time that grows with their number, and keeps no more of a line than it may have."""

    def __init__(self, encoding: _Encoding, longest: int) -> None:
        self._encoding = encoding
        self._longest = longest
        self._offset = 0
        """Where the line at hand begins."""
        self._length = 0
        """Of it so far."""
        self._line = bytearray()
        self._half = b""
        """A part of a character, whose other part is still to come."""

    def feed(self, data: bytes) -> Iterator[_Part]:
        """Yield the lines that `data` completes."""
        data = self._half + data
        whole = len(data) - len(data) % len(self._encoding.newline)
        self._half = data[whole:]
        # A carriage return at the end of a piece may be half a line end, so only newlines complete a line.
        first, *others = _divided(data[:whole], self._encoding.newline)
        yield from self._add(first)
        for piece in others:
            yield from self._complete()
            yield from self._add(piece)

    def end(self) -> Iterator[_Part]:
        """Yield what the end of the input completes."""
        yield from self._add(self._half)
        yield from self._complete()

    def _add(self, piece: bytes) -> Iterator[_Part]:
        fitted = self._length <= self._longest
        self._length += len(piece)
        if self._length <= self._longest:
            self._line += piece
        elif fitted:
            self._line.clear()
            yield _Part(None, self._offset, self._encoding)

    def _complete(self) -> Iterator[_Part]:
        begin, line, carriage_return = self._offset, bytes(self._line), self._encoding.carriage_return
        if self._length <= self._longest:
            for part in _divided(line.removesuffix(carriage_return), carriage_return):
                yield _Part(part, begin, self._encoding)
                begin += len(part) + len(carriage_return)
        self._offset += self._length + len(self._encoding.newline)
        self._length = 0
        self._line.clear()


def _divided(data: bytes, separator: bytes) -> list[bytes]:
    """Return `data` cut at a character: `bytes.split`, but not in the middle of two characters of two bytes each."""
    if len(separator) == 1:
        return data.split(separator)
    pieces, start, found = [], 0, data.find(separator)
    while found >= 0:
        if (found - start) % len(separator) == 0:
            pieces.append(data[start:found])
            start = found + len(separator)
            found = data.find(separator, start)
        else:
            found = data.find(separator, found + 1)
    return [*pieces, data[start:]]


def _without_mark(line: str) -> str:
    # Joined files carry the mark of each at the start of a line.
    return line.removeprefix(_BYTE_ORDER_MARK)
