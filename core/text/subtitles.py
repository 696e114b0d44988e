"""Subtitle files as cues to be spoken: SubRip (SRT) and WebVTT, and through pysubs2 what else it reads (ASS, SSA ...).

The two line-based formats are read here, because errors name the line, and because WebVTT's notes and identifiers are
no speech. The reader is tolerant where the meaning is clear: dots or commas, missing hours, numbers, fractions or blank
lines, positions behind the times, tags, entities, any order. What cannot be placed in time is an error, never a guess.
"""

from __future__ import annotations

import html
import logging
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from os import PathLike
from pathlib import Path

from ..errors import TextError, UsageError
from ..limits import LONGEST_SECONDS
from .decoding import decode_text
from .sentences import spoken_words

logger = logging.getLogger(__name__)

_STAMP = r"(?:(\d{1,9})\s*:\s*)?(\d{1,9})\s*:\s*(\d{1,9})(?:\s*[.,:]\s*(\d+))?"
_TIMING = re.compile(rf"^\s*{_STAMP}\s*(?:-{{1,2}}\s?>|[–—]>|→)\s*{_STAMP}(?!\S)")
_ARROW = "-->"
_MEANT_AS_TIME = re.compile(rf"\d\s*:.*{_ARROW}|{_ARROW}.*\d\s*:")
"""Words may have an arrow too, but hardly a colon behind a digit besides."""
_SCRIPT = "[Script Info]"
_NUMBER = re.compile(r"^\s*(\d{1,9})\s*$")

_BREAK_TAG = re.compile(r"<\s*br\s*/?\s*>|\\N|\\h", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[\d:.,]+>|\{\\[^{}]*\}|\{[A-Za-z]:[^{}]*\}")
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);")
_SPEAKER_DASH = re.compile(r"^\s*[-‐‑–—]+\s*(?!\d)")
_UNSPOKEN = re.compile("[♩♪♫♬\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\x00-\x08\x0b-\x1f]")
_SPACES = re.compile(r"\s+")

_PROBLEMS_TOLD = 3
_KEPT_PART = 0.5
"""Of two cues that overlap the earlier one is cut, if this part of it is left, or time enough for its words."""
_WORDS_PER_SECOND = 3.0


@dataclass(frozen=True)
class Cue:
    """Words, and when they are to be heard.

    Attributes:
        number: what the file calls it, or its position in the file, counted from 1.
        start, end: its slot, in seconds.
        text: without tags, each line of it a line of the file.
    """

    number: int
    start: float
    end: float
    text: str

    @property
    def seconds(self) -> float:
        """Length of the slot."""
        return self.end - self.start


@dataclass(frozen=True)
class _Block:
    """A cue as it stands in the file, with the number of the line that says when (0: there are no lines)."""

    line: int
    number: int
    start: float
    end: float
    lines: tuple[str, ...]


def read_subtitles(path: str | PathLike[str]) -> list[Cue]:
    """Return the cues of a subtitle file that have words, in order of time, none overlapping another.

    Raises:
        TextError: the file cannot be read, is no text, is no subtitle file, or holds times that cannot be right; the
            message names the line.
        UsageError: no cue has words.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_subtitles(decode_text(data, str(path)), str(path))


def parse_subtitles(text: str, source: str = "the subtitles") -> list[Cue]:
    """Return the cues of subtitles as `read_subtitles` does; `source` is what messages call them.

    Raises:
        TextError, UsageError: see `read_subtitles`.
    """
    blocks = list(_blocks(text, source))
    _refuse_impossible(blocks, source)
    cues = [Cue(block.number, block.start, block.end, spoken_text(block.lines)) for block in blocks]
    worded = [cue for cue in cues if _has_words(cue.text)]
    if not worded:
        raise UsageError(f"{source} has nothing to say: none of its {len(cues)} cues has words")
    if len(worded) < len(cues):
        skipped = ", ".join(str(cue.number) for cue in cues if not _has_words(cue.text))
        logger.info("%s: no words in cue %s: skipped", source, skipped)
    return disjoint(worded)


def spoken_text(lines: Iterable[str]) -> str:
    """Return what a reader would say of the lines of a cue: no tags, entities resolved, no empty lines.

    The dash that marks a change of speaker at the start of a line is dropped, so are notes of music.
    """
    spoken = []
    for line in _BREAK_TAG.sub("\n", "\n".join(lines)).split("\n"):
        clean = _ENTITY.sub(lambda match: html.unescape(match.group()), _TAG.sub("", line))
        spoken.append(_SPACES.sub(" ", _SPEAKER_DASH.sub("", _UNSPOKEN.sub("", clean))).strip())
    return "\n".join(filter(None, spoken))


def disjoint(cues: Iterable[Cue]) -> list[Cue]:
    """Return cues in order of time, with slots that do not overlap; each change is a warning in the log.

    Of two that overlap the later one wins: the earlier one ends when it begins. Where that would leave the earlier
    one too little time for its words (two people speak at once) the later one waits for it instead. Repeated cues are
    kept once.
    """
    once = {(cue.start, cue.end, cue.text): cue for cue in reversed(list(cues))}
    result: list[Cue] = []
    for cue in sorted(once.values(), key=lambda cue: (cue.start, cue.end, cue.number)):
        if result and cue.start < result[-1].end:
            result[-1], cue = _parted(result[-1], cue)
        result.append(cue)
    return result


def stamp(seconds: float) -> str:
    """Return a time as subtitles write it: 01:02:03,456."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d},{rest % 1000:03d}"


def _parted(earlier: Cue, later: Cue) -> tuple[Cue, Cue]:
    """Return two cues whose slots overlap with slots that do not."""
    enough = min(_KEPT_PART * earlier.seconds, spoken_words(earlier.text) / _WORDS_PER_SECOND)
    if later.start - earlier.start >= enough > 0:
        logger.warning(
            "cue %d overlaps cue %d: it ends at %s, not at %s",
            *(earlier.number, later.number, stamp(later.start), stamp(earlier.end)),
        )
        return replace(earlier, end=later.start), later
    logger.warning(
        "cue %d overlaps cue %d: it is moved from %s to %s",
        *(later.number, earlier.number, stamp(later.start), stamp(earlier.end)),
    )
    end = max(later.end, earlier.end + _KEPT_PART * later.seconds)
    return earlier, replace(later, start=earlier.end, end=end)


def _blocks(text: str, source: str) -> Iterator[_Block]:
    """Return the cues of a file of any format, in its order."""
    lines, beginning = text.split("\n"), text.lstrip()
    if beginning.startswith("WEBVTT"):
        return _line_blocks(lines, source, vtt=True)
    if any(map(_is_timing, lines)) and not beginning.startswith((_SCRIPT, "<")):
        return _line_blocks(lines, source, vtt=False)
    return _library_blocks(text, source)


def _line_blocks(lines: list[str], source: str, *, vtt: bool) -> Iterator[_Block]:
    """Yield the cues of SRT or VTT: a line with two times, and what follows it up to the next one."""
    timings = [index for index, line in enumerate(lines) if _is_timing(line)]
    _refuse_unreadable(lines, timings, source)
    _warn_of_strays(lines[: timings[0]], source, vtt=vtt)
    for position, (index, following) in enumerate(zip(timings, [*timings[1:], len(lines)], strict=True)):
        match = _TIMING.match(lines[index])
        assert match
        body = lines[index + 1 : following]
        if vtt:  # notes and identifiers of cues stand behind an empty line
            body = list(takewhile(str.strip, body))
        elif body and following < len(lines) and _NUMBER.match(body[-1]):
            body.pop()  # the number of the next cue
        number = _NUMBER.match(lines[index - 1]) if index else None
        yield _Block(
            index + 1,
            int(number.group(1)) if number else position + 1,
            _seconds(*match.groups()[:4]),
            _seconds(*match.groups()[4:]),
            tuple(body),
        )


def _is_timing(line: str) -> bool:
    meant = _ARROW in line and _MEANT_AS_TIME.search(line) is not None
    return meant or _TIMING.match(line) is not None


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    milliseconds = 1000 * (3600 * int(hours or 0) + 60 * int(minutes) + int(seconds))
    return milliseconds / 1000 + (float(f"0.{fraction}") if fraction else 0.0)


def _refuse_unreadable(lines: list[str], timings: list[int], source: str) -> None:
    problems = [
        f"line {index + 1}: the times of {_quoted(lines[index])} cannot be read"
        for index in timings
        if not _TIMING.match(lines[index])
    ]
    if not timings:
        problems = ["line 1: a WebVTT file without a single cue"]
    _refuse(problems, source, f"expected times like {stamp(1)} {_ARROW} {stamp(2.5)}")


def _refuse_impossible(blocks: list[_Block], source: str) -> None:
    problems = []
    for block in blocks:
        where = f"line {block.line}: " if block.line else ""
        if block.end < block.start:
            times = f"at {stamp(block.end)}, before it starts at {stamp(block.start)}"
            problems.append(f"{where}cue {block.number} ends {times}")
        elif block.end > LONGEST_SECONDS:
            most = f"a timeline has at most {stamp(LONGEST_SECONDS)}"
            problems.append(f"{where}cue {block.number} ends at {stamp(block.end)}, {most}")
    _refuse(problems, source)


def _refuse(problems: list[str], source: str, hint: str = "") -> None:
    if not problems:
        return
    told = "; ".join(problems[:_PROBLEMS_TOLD])
    if len(problems) > _PROBLEMS_TOLD:
        told += f"; and {len(problems) - _PROBLEMS_TOLD} more"
    raise TextError(f"{source}, {told}" + (f" ({hint})" if hint else ""))


def _warn_of_strays(head: list[str], source: str, *, vtt: bool) -> None:
    """Tell of words before the first cue of an SRT file: they are most likely a cue without its times."""
    if vtt:
        return
    strays = [index for index, line in enumerate(head) if line.strip()]
    if strays and _NUMBER.match(head[strays[-1]]):
        strays.pop()
    if strays:
        first = strays[0]
        logger.warning(
            "%s, line %d: %s belongs to no cue and is not spoken", source, first + 1, _quoted(head[first])
        )


def _library_blocks(text: str, source: str) -> Iterator[_Block]:
    """Yield the cues of the formats that pysubs2 knows; comments and drawings are none."""
    # Loaded only here: most files are SRT.
    import pysubs2

    try:
        # A script without styles is not recognised by itself.
        known = "ass" if _SCRIPT in text and "Styles]" not in text else None
        with warnings.catch_warnings():  # of fields that do not matter here
            warnings.simplefilter("ignore")
            file = pysubs2.SSAFile.from_string(text, format_=known)
    except (pysubs2.exceptions.Pysubs2Error, ValueError, IndexError, SyntaxError) as error:
        raise TextError(f"{source}, line 1: {_not_subtitles(text)}") from error
    for number, event in enumerate(file.get_text_events(), start=1):
        yield _Block(0, number, event.start / 1000, event.end / 1000, tuple(event.plaintext.split("\n")))


def _not_subtitles(text: str) -> str:
    if not text.strip():
        return "the file is empty"
    first = next(line for line in text.split("\n") if line.strip())
    return (
        f"{_quoted(first)} is no beginning of a subtitle file "
        f"(expected SRT, with times like {stamp(1)} {_ARROW} {stamp(2.5)}, or WebVTT, ASS, SSA)"
    )


def _quoted(line: str, longest: int = 60) -> str:
    line = line.strip()
    return repr(line if len(line) <= longest else f"{line[: longest - 3]}...")


def _has_words(text: str) -> bool:
    return any(unicodedata.category(character)[0] in "LN" for character in text)
