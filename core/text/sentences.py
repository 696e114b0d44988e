"""Cutting text into pieces that a model can say in one breath.

Pieces are slices of the text: put together again, they hold every word once, in order. Cuts are made at sentence
ends; a sentence that is too long is cut at clauses, then between words, then (scripts without spaces) between
characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

_SPACED_TERMINATORS = ".!?…؟۔।॥։።፧"
"""End a sentence when white space follows."""
_WIDE_TERMINATORS = "。！？｡．"
"""End a sentence whatever follows."""
_CLOSERS = "\"'”’»›)]}）］｝」』】〉》〕"
_SENTENCE_END = re.compile(
    rf"[{_WIDE_TERMINATORS}]+[{re.escape(_CLOSERS)}]*"
    rf"|(?<![{_SPACED_TERMINATORS}])[{_SPACED_TERMINATORS}]+[{re.escape(_CLOSERS)}]*(?=\s|$)"
    r"|\n\s*\n"
)
_PAUSE = rf"[,;:][{re.escape(_CLOSERS)}]*(?=\s)|[，、；：，；：､]+[{re.escape(_CLOSERS)}]*"
_PAUSE_END = re.compile(_PAUSE)
_CLAUSE_END = re.compile(rf"{_PAUSE}|\s[-–—]+(?=\s)|—+|[)\]}}](?=\s)|\n")
_SPACES = re.compile(r"\s+")
_NOT_A_SPACE = re.compile(r"\S")
_LAST_WORD = re.compile(r"[\w.'’-]*$")
_INITIAL = re.compile(r"(?:^|[\s.(])[^\W\d_]$")
_LIST_NUMBER = re.compile(r"\d{1,3}$")

_ABBREVIATIONS = frozenset(
    abbreviation
    for language in (
        "mr mrs ms dr prof rev hon st sr jr gen col capt lt sgt maj messrs vs etc e.g i.e eg ie cf approx no nos",
        "fig figs vol vols ch sec eq ed eds pp dept est inc ltd co corp ave blvd rd apt a.m p.m u.s u.k u.n ph.d",
        "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri",
        "z.b d.h u.a bzw usw ca nr str abs hr fr evtl ggf vgl sog",  # German
        "mme mlle art av env",  # French
        "sra srta dra ud uds pág núm",  # Spanish, Portuguese
        "dott sig sig.ra ing avv",  # Italian
        "т.е т.д т.п г гг ул им стр рис",  # Russian
    )
    for abbreviation in language.split()
)
"""Last words that a stop belongs to, without that stop."""
_ONLY_WITH_A_NAME = frozenset(
    "no nos fig figs vol vols ch sec eq ed pp nr abs art núm pág st jun mar dec mon fri".split()  # noqa: SIM905
)
"""Of these, the ones that are also ordinary last words: abbreviations only when a number (or a saint) follows."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Myanmar, Khmer
    "\u3005-\u3007\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Han
)
"""A character of a script that puts no spaces between words."""
_LONGEST_ENDING = 80
"""Characters before a stop that tell whether it belongs to them."""
_LONGEST_RUN = 1000
"""Characters that are seen as one; a longer run of marks is none, and is cut anywhere."""

_LONG_WORD = 15
"""Characters beyond which a word takes the time of two."""
_CHARACTERS_PER_WORD = 2
"""In scripts without spaces: Chinese and Japanese words have about two characters."""


def spoken_words(text: str) -> int:
    """Return the length of `text` in words: between spaces, or two characters of a script without spaces."""
    unspaced, words = 0, 0
    for word in text.split():
        alone = 0 if word.isascii() else len(_UNSPACED.findall(word))
        unspaced += alone
        spelt = len(word) - alone
        words += -(-spelt // _LONG_WORD)
    return words + -(-unspaced // _CHARACTERS_PER_WORD)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, in order, without white space around them.

    Knows abbreviations, initials, decimal numbers, quotes after the stop, and full-width punctuation. A blank
    line ends a sentence, a single newline does not.
    """
    cuts = [0, *_sentence_cuts(text), len(text)]
    pieces = (text[start:end].strip() for start, end in pairwise(cuts))
    return [piece for piece in pieces if piece]


def pauses(text: str) -> Iterator[int]:
    """Yield the positions, in order, behind commas, semicolons and colons, where a reader takes breath; not those in
    numbers."""
    return (match.end() for match in _PAUSE_END.finditer(text))


def split_text(text: str, limit: int, length: Callable[[str], int] = spoken_words) -> list[str]:
    """Return `text` cut into pieces of at most `limit`, whole sentences where possible.

    Args:
        text: any text; white space at the cuts is dropped, everything else is kept, once and in order.
        limit: greatest length of a piece; only a single character can exceed it.
        length: what is measured; words as spoken, unless the model counts otherwise.

    Raises:
        ValueError: the limit is not positive.
    """
    if limit < 1:
        raise ValueError(f"the limit must be at least 1, not {limit}")
    start = end = 0
    pieces: list[str] = []
    for cut in [*_sentence_cuts(text), len(text)]:
        if length(text[start:cut]) > limit and text[start:end].strip():
            pieces.append(text[start:end].strip())
            start = end
        end = cut
        if length(text[start:end]) > limit:
            pieces.extend(_divide(text[start:end].strip(), limit, length))
            start = end
    pieces.append(text[start:end].strip())
    return [piece for piece in pieces if piece]


def _sentence_cuts(text: str) -> Iterator[int]:
    """Yield the positions, in order, where a sentence has just ended."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.end() < len(text) and _ends_sentence(text, start, match):
            start = match.end()
            yield start


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    mark = match.group()
    if mark.isspace() or mark[0] in _WIDE_TERMINATORS:
        return True
    behind = _NOT_A_SPACE.search(text, match.end())
    following = behind.group() if behind else ""
    if following.islower():
        return False
    before = text[max(start, match.start() - _LONGEST_ENDING) : match.start()]
    return mark != "." or not _is_abbreviation(before, following)


def _is_abbreviation(before: str, following: str) -> bool:
    """Tell whether the stop after `before` (the sentence so far, or its end) belongs to its last word."""
    word_match = _LAST_WORD.search(before)
    word = word_match.group().casefold().lstrip("'’-") if word_match else ""
    if word in _ONLY_WITH_A_NAME:
        return following.isdigit() or (word == "st" and following.isupper())
    if word in _ABBREVIATIONS:
        return True
    if _INITIAL.search(before) and word != "i":
        return following.isalpha()
    return bool(_LIST_NUMBER.fullmatch(before.strip()))


def _divide(sentence: str, limit: int, length: Callable[[str], int]) -> Iterator[str]:
    """Yield about equal parts of a sentence that is too long, cut at the best places."""
    total = length(sentence)
    if total <= limit or len(sentence) < 2:
        yield sentence
        return
    parts = -(-total // limit)
    share = (parts // 2) / parts
    cut = _best_cut(sentence, share)
    yield from _divide(sentence[:cut].strip(), limit, length)
    yield from _divide(sentence[cut:].strip(), limit, length)


def _best_cut(sentence: str, share: float) -> int:
    """Return where to cut so that about `share` of the sentence comes first: clause, else space, else character."""
    wanted = share * len(sentence)
    reach = min(share, 1 - share) * len(sentence) / 2
    inside = range(1, len(sentence))
    clauses = [
        m.end()
        for m in _CLAUSE_END.finditer(sentence)
        if m.end() in inside and abs(m.end() - wanted) <= reach
    ]
    if clauses:
        return min(clauses, key=lambda cut: abs(cut - wanted))
    words = _cuts_between_words(sentence, wanted)
    if words:
        return min(words, key=lambda cut: abs(cut - wanted))
    # A single very long word leaves only the places between its characters.
    cut = _nearest(wanted, len(sentence), _LONGEST_RUN, lambda cut: not _joins(sentence, cut))
    return cut or round(wanted) or 1


def _cuts_between_words(sentence: str, wanted: float) -> list[int]:
    """Return the places nearest to `wanted` behind spaces and in scripts without them, as far as there are any."""
    length, found = len(sentence), []
    if _SPACES.search(sentence):
        found.append(_nearest(wanted, length, length, lambda cut: _begins_word(sentence, cut)))
    if _UNSPACED.search(sentence):
        found.append(_nearest(wanted, length, length, lambda cut: _is_between(sentence, cut)))
    return [cut for cut in found if cut is not None]


def _nearest(wanted: float, length: int, reach: int, suits: Callable[[int], bool]) -> int | None:
    """Return the place from 1 to `length` - 1 that suits and is nearest to `wanted`, the first of two; up to `reach`
    places away on either side."""
    below = int(wanted)
    above = below + 1
    least, most = max(1, above - reach), min(length - 1, below + reach)
    while below >= least or above <= most:
        if below >= least and (above > most or wanted - below <= above - wanted):
            place, below = below, below - 1
        else:
            place, above = above, above + 1
        if suits(place):
            return place
    return None


def _begins_word(text: str, cut: int) -> bool:
    """Tell whether a word begins at `cut`, behind spaces."""
    return text[cut - 1].isspace() and not text[cut].isspace()


def _is_between(text: str, cut: int) -> bool:
    """Tell whether a character of a script without spaces ends at `cut`, and what follows does not belong to it."""
    return _UNSPACED.match(text, cut - 1) is not None and not _joins(text, cut)


def _joins(text: str, cut: int) -> bool:
    """Tell whether the characters around `cut` are seen as one: marks, joiners, modifiers, punctuation that trails."""
    after = text[cut]
    return (
        unicodedata.category(after)[0] == "M"
        or unicodedata.category(after) in ("Po", "Pe", "Pf", "Lm", "Sk", "Cf")
        or text[cut - 1] == "\u200d"
    )
