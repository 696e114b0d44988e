"""How long a text will take to speak (omnivoice.utils.duration): frames = weight of the text / speed of the voice.

The weight of a text is that of its characters, in Latin letters. The official package takes the general category of a
character from Python's unicodedata, and so does this one; scripts are told apart by code point.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from ..errors import UsageError

_TATWEEL = "\u0640"
_SPACE = 0.2
_PUNCTUATION = 0.5
_DIGIT = 3.5

_SCRIPT_WEIGHTS = {
    "latin": 1.0,
    "cyrillic": 1.0,
    "greek": 1.0,
    "armenian": 1.0,
    "georgian": 1.0,
    "other": 1.0,
    "arabic": 1.5,
    "hebrew": 1.5,
    "thai": 1.5,
    "indic": 1.8,
    "khmer": 1.8,
    "kana": 2.2,
    "hangul": 2.5,
    "ethiopic": 3.0,
    "han": 3.0,
    "yi": 3.0,
}
_BEYOND_RANGES = 1.0
_SUPPLEMENTARY_HAN = 3.0
_SUPPLEMENTARY_HAN_START = 0x20000

# The last code point of each range and its script. Neighbours of one script are one range.
_RANGES = (
    "02AF latin, 03FF greek, 052F cyrillic, 058F armenian, 05FF hebrew, 08FF arabic, 0DFF indic, "
    "0EFF thai, 0FFF indic, 109F khmer, 10FF georgian, 11FF hangul, 139F ethiopic, 177F other, "
    "17FF khmer, 18FF other, 19DF indic, 19FF khmer, 1C7F indic, 1C8F cyrillic, 1CBF georgian, "
    "1CFF indic, 1DBF latin, 1DFF other, 1EFF latin, 30FF kana, 312F han, 318F hangul, 9FFF han, "
    "A4CF yi, A63F other, A69F cyrillic, A6FF other, A7FF latin, A82F indic, A87F other, A95F indic, "
    "A97F hangul, A9DF indic, A9FF khmer, AA5F indic, AA7F khmer, AAFF indic, AB2F ethiopic, "
    "AB6F latin, ABBF other, ABFF indic, D7AF hangul, FAFF han, FDFF arabic, FE6F other, FEFF arabic, "
    "FFEF latin"
)
_RANGE_ENDS = tuple(int(entry.split()[0], 16) for entry in _RANGES.split(", "))
_RANGE_WEIGHTS = tuple(_SCRIPT_WEIGHTS[entry.split()[1]] for entry in _RANGES.split(", "))

_SHORT_FRAMES = 50.0
"""An estimate below this many frames is stretched, the more the shorter it is."""
_SHORT_EXPONENT = 1 / 3

_UNRELIABLE_SECONDS = 2.0
"""Below this the model may give noise when it has no reference (official documentation, docs/tips.md)."""
_FLOOR_SECONDS = 1.5


@dataclass(frozen=True)
class Pace:
    """How fast a voice speaks: the transcript of its reference, and the frames that took."""

    text: str
    frames: int

    @property
    def weight_per_frame(self) -> float:
        """Speed; 0 when the transcript has nothing to say."""
        return text_weight(self.text) / self.frames if self.frames > 0 else 0.0


USUAL_FRAME_RATE = 25.0
"""Frames per second of the codec that the pace is counted in."""
DEFAULT_PACE = Pace("Nice to meet you.", 25)
"""Of a voice without a reference."""


@dataclass(frozen=True)
class SpokenLength:
    """How long a text is to be."""

    frames: int
    speed: float
    """What the estimates of its chunks are divided by, should it be cut into chunks."""
    fixed: bool
    """Whether the user asked for exactly these frames."""
    warning: str | None = None


@lru_cache(maxsize=4096)
def character_weight(character: str) -> float:
    """Return the time that one character takes, in Latin letters."""
    code = ord(character)
    category = unicodedata.category(character)[0]
    if character == _TATWEEL or category == "M":
        return 0.0
    if category in "PS":
        return _PUNCTUATION
    if category == "Z":
        return _SPACE
    if category == "N":
        return _DIGIT
    if code <= _RANGE_ENDS[-1]:
        return _RANGE_WEIGHTS[bisect_left(_RANGE_ENDS, code)]
    return _SUPPLEMENTARY_HAN if code > _SUPPLEMENTARY_HAN_START else _BEYOND_RANGES


def text_weight(text: str) -> float:
    """Return the time that `text` takes, in Latin letters."""
    # Not sum(): from Python 3.12 on it compensates rounding, and frames would depend on the Python version.
    weight = 0.0
    for character in text:
        weight += character_weight(character)
    return weight


def estimate(text: str, pace: Pace | None = None) -> float:
    """Return how many frames `text` takes at a pace, a fraction; 0 for a pace without speed.

    Without a pace, or without a transcript in it, it is the default one.
    """
    speed = _pace(pace).weight_per_frame
    if speed == 0.0:
        return 0.0
    frames = text_weight(text) / speed
    if frames < _SHORT_FRAMES:
        return float(_SHORT_FRAMES * (frames / _SHORT_FRAMES) ** _SHORT_EXPONENT)
    return frames


def estimate_frames(text: str, pace: Pace | None = None, speed: float = 1.0) -> int:
    """Return how many frames `text` takes at a pace, `speed` times as fast; at least 1."""
    return max(1, int(estimate(text, pace) / speed))


def spoken_length(
    text: str,
    frame_rate: float,
    pace: Pace | None = None,
    *,
    speed: float | None = None,
    duration: float | None = None,
) -> SpokenLength:
    """Return how many frames to make for `text`.

    Args:
        text: what is spoken.
        frame_rate: of the codec, in frames per second.
        pace: of the reference; without one the model cannot speak very short texts, so they get a little more time.
        speed: 1.5 is half as fast again as usual.
        duration: seconds, instead of an estimate.

    Raises:
        UsageError: speed or duration is no positive number, or both are given.
    """
    _check(speed, duration)
    usual = estimate_frames(text, pace, speed or 1.0)
    if duration is not None:
        frames = max(1, int(duration * frame_rate))
        length = SpokenLength(frames, usual / frames, fixed=True)
    else:
        length = SpokenLength(usual, speed or 1.0, fixed=False)
    return length if pace is not None else _with_floor(length, frame_rate)


def chunk_limit(text: str, frames: int, frame_rate: float, seconds: float) -> int:
    """Return how many characters of `text`, which takes `frames` in all, take `seconds`; at least 1."""
    frames_per_character = frames / max(1, len(text))
    return max(1, int(seconds * frame_rate / frames_per_character))


def _pace(pace: Pace | None) -> Pace:
    return pace if pace is not None and pace.text else DEFAULT_PACE


def _check(speed: float | None, duration: float | None) -> None:
    if speed is not None and duration is not None:
        raise UsageError(f"duration {duration:g} s and speed {speed:g} are both given; choose one of them")
    for kind, value in (("speed", speed), ("duration", duration)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{kind} must be a positive number, not {value:g}")


def _with_floor(length: SpokenLength, frame_rate: float) -> SpokenLength:
    """Give a short text without a reference the least time that works, and say so."""
    if length.frames >= _UNRELIABLE_SECONDS * frame_rate:
        return length
    frames = length.frames if length.fixed else max(length.frames, int(_FLOOR_SECONDS * frame_rate))
    warning = (
        f"{frames / frame_rate:.1f} s is very short for speech without a reference, and may come out as noise:"
        " give a reference recording, or a longer text"
    )
    return SpokenLength(frames, length.speed, length.fixed, warning)
