"""What happens to a text before OmniVoice's tokenizer sees it: joining lines, cutting into chunks, combining.

`chunk_text`, `add_punctuation`, `combine_text` and `split_tags` equal the official package (omnivoice.utils.text and
omnivoice.models.omnivoice) character by character. `join_lines` and `divide_long` come before and after them, for
what the official package leaves to its user: hard-wrapped lines, and text without punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..text.sentences import split_text

NONVERBAL_TAGS = (
    "[laughter]",
    "[sigh]",
    "[confirmation-en]",
    "[question-en]",
    "[question-ah]",
    "[question-oh]",
    "[question-ei]",
    "[question-yi]",
    "[surprise-ah]",
    "[surprise-oh]",
    "[surprise-wa]",
    "[surprise-yo]",
    "[dissatisfaction-hnn]",
)
"""Sounds that can be written into a text."""

SHORTEST_CHUNK = 3
"""Characters below which a chunk joins its neighbour."""

_TAGS = re.compile("(" + "|".join(map(re.escape, NONVERBAL_TAGS)) + ")")
_CLAUSE_ENDS = frozenset(".,;:!?。，；：！？")
_CLOSING_MARKS = frozenset("\"'“”‘’）]》>」】")
_ENDS_A_TEXT = frozenset(";:,.!?…)]}\"'“”‘’；：，。！？、）】")
_ABBREVIATIONS = frozenset(
    abbreviation
    for line in (
        "Mr. Mrs. Ms. Dr. Prof. Sr. Jr. Rev. Fr. Hon. Pres. Gov. Capt. Gen. Sen. Rep. Col. Maj. Lt. Cmdr. Sgt. Cpl.",
        "Co. Corp. Inc. Ltd. Est. Dept. St. Ave. Blvd. Rd. Mt. Ft. No. Jan. Feb. Mar. Apr. Aug. Sep. Sept. Oct. Nov.",
        "Dec. i.e. e.g. vs. Vs. Etc. approx. fig. def.",
    )
    for abbreviation in line.split()
)

_HAN = "\u4e00-\u9fff"
_HAN_CHARACTER = re.compile(f"[{_HAN}]")
_SPACE_AT_HAN = re.compile(rf"(?<=[{_HAN}])\s+|(?<!\s)\s+(?=[{_HAN}])")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_SPACES_AND_TABS = re.compile(r"[ \t]+")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
"""Thai, Lao, Myanmar, Khmer, Kana, Han and full-width forms: no spaces between words."""
_BROKEN_WORD = re.compile(r"[^\W\d_][-‐]$")


def is_chinese(text: str) -> bool:
    """Tell whether `text` has a Han character (U+4E00 to U+9FFF): what the official package calls Chinese."""
    return bool(_HAN_CHARACTER.search(text))


def add_punctuation(text: str) -> str:
    """Return `text` without white space around it, and with a full stop unless it ends in a punctuation mark."""
    text = text.strip()
    if not text or text[-1] in _ENDS_A_TEXT:
        return text
    return text + ("。" if is_chinese(text) else ".")


def combine_text(text: str, reference_text: str | None = None) -> str:
    """Return what is spoken in one prompt: the transcript of the reference, if there is one, and then `text`.

    Line breaks vanish without a trace (`join_lines` comes earlier), as does white space beside Han characters.
    """
    full = f"{reference_text.strip()} {text.strip()}" if reference_text else text.strip()
    full = _LINE_BREAKS.sub("", full)
    full = full.replace("（", "(").replace("）", ")")
    full = _SPACES_AND_TABS.sub(" ", full)
    return _SPACE_AT_HAN.sub("", full)


def split_tags(text: str) -> list[str]:
    """Return `text` cut around its non-verbal tags, in order, no piece empty.

    Each piece is tokenized by itself, so that a tag has the same ids whatever stands beside it.
    """
    return [piece for piece in _TAGS.split(text) if piece]


def chunk_text(text: str, limit: int, shortest: int | None = SHORTEST_CHUNK) -> list[str]:
    """Cut `text` at its punctuation into chunks of about `limit` characters (chunk_text_punctuation).

    Args:
        text: any text. White space at the cuts is dropped, all else is kept, once and in order.
        limit: characters that a chunk grows to; a sentence or clause that is longer stands alone.
        shortest: shorter chunks join their neighbour; None keeps them.
    """
    chunks: list[str] = []
    for clause in _clauses(text):
        if chunks and len(chunks[-1]) + len(clause) <= limit:
            chunks[-1] += clause
        else:
            chunks.append(clause)
    if shortest is not None:
        chunks = _without_short_ones(chunks, shortest)
    return [chunk.strip() for chunk in chunks if chunk.strip()]


def divide_long(chunks: list[str], longest: int) -> Iterator[str]:
    """Yield the chunks, those of more than `longest` characters in about equal parts, cut between words where possible.

    Raises:
        ValueError: `longest` is not positive.
    """
    for chunk in chunks:
        yield from split_text(chunk, longest, len) if len(chunk) > longest else [chunk]


def join_lines(text: str) -> str:
    """Return `text` in one line, joined as a reader would.

    A line break is a space, or nothing in scripts without spaces and after the hyphen of a broken word; a blank line
    ends a sentence, so that a heading does not run into the paragraph below it.
    """
    paragraphs = [_join_paragraph(part) for part in _PARAGRAPH_BREAK.split(_unified(text).strip())]
    *complete, last = paragraphs
    return _joined([*map(add_punctuation, complete), last])


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n\n")


def _join_paragraph(paragraph: str) -> str:
    return _joined([line.strip() for line in paragraph.split("\n")])


def _joined(parts: list[str]) -> str:
    pieces, end = [], ""  # what decides about a space are the last two characters before it
    for part in filter(None, parts):
        piece = (_space_between(end, part) if end else "") + part
        pieces.append(piece)
        end = (end + piece)[-2:]
    return "".join(pieces)


def _space_between(before: str, after: str) -> str:
    if _UNSPACED.match(before[-1]) and _UNSPACED.match(after):
        return ""
    return "" if _BROKEN_WORD.search(before) and after[0].islower() else " "


def _clauses(text: str) -> Iterator[str]:
    """Yield `text` in pieces that end with a punctuation mark and what closes behind it."""
    start = 0
    position = 0
    while position < len(text):
        mark = text[position]
        position += 1
        if mark in _CLAUSE_ENDS and not (mark == "." and _is_abbreviation(text[start:position])):
            while position < len(text) and (
                text[position] in _CLAUSE_ENDS or text[position] in _CLOSING_MARKS
            ):
                position += 1
            yield text[start:position]
            start = position
    if start < len(text):
        yield text[start:]


def _is_abbreviation(clause: str) -> bool:
    return clause.rsplit(maxsplit=1)[-1] in _ABBREVIATIONS


def _without_short_ones(chunks: list[str], shortest: int) -> list[str]:
    kept: list[str] = []
    for number, chunk in enumerate(chunks):
        follows_short_first = number == 1 and len(chunks[0]) < shortest
        if kept and (follows_short_first or len(chunk) < shortest):
            kept[-1] += chunk
        else:
            kept.append(chunk)
    return kept
