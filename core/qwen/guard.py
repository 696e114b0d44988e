"""Speech that never ends: how long a text can take at most, and frames that come again and again.

The talker ends an utterance itself. Now and then it does not, above all for texts that say little: one word, an
interjection, symbols. Both rules below are generous, so that they never cut speech that a listener would call normal.
"""

from __future__ import annotations

import math
import unicodedata
from collections import deque
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SLACK_SECONDS = 4.0
"""Granted to every text: a slow start, a breath, a pause at the end."""
SLOWNESS = 3.0
"""How much slower than the usual pace the speech may be."""

_LETTER_SECONDS = 0.07
"""Of alphabets, at 14 letters a second."""
_CAPITAL_SECONDS = 0.2
"""A capital may be spelt out."""
_SYLLABLE_SECONDS = 0.25
"""Of scripts with a character for each syllable or word: Han, Kana, Hangul."""
_DIGIT_SECONDS = 0.4
"""Read out one by one or as part of a number."""
_MARK_SECONDS = 0.1
"""A space or a punctuation mark: the pause that it may bring."""
_SYMBOL_SECONDS = 0.5
"""A symbol that may be read out as words: %, ∑, an emoji."""

_LONGEST_CYCLE = 32
"""Frames in the longest loop that is looked for (2.6 s)."""
_REPEATED_FRAMES = 25
"""Frames (2 s) that have to be a repetition, at least, before it counts as a loop."""
_REPEATED_CYCLES = 3
"""How often a loop has to come again."""


def speaking_seconds(text: str) -> float:
    """Return a rough estimate of how long it takes to say `text` at the usual pace."""
    return sum(map(_seconds, text))


def most_frames(text: str, frame_rate: float) -> int:
    """Return how many frames the speech of `text` can have at most: 4 s, and three times the usual pace."""
    return math.ceil((SLACK_SECONDS + SLOWNESS * speaking_seconds(text)) * frame_rate)


class Guard:
    """Watches the frames of one utterance.

    Attributes:
        most_frames: how many there can be.
    """

    def __init__(self, text: str, frame_rate: float) -> None:
        self.most_frames = most_frames(text, frame_rate)
        self._frame_rate = frame_rate
        self._frames = 0
        self._repetition = RepetitionDetector()

    def notice(self, codes: NDArray[np.int32]) -> str | None:
        """Take note of the codes [codebooks] of the next frame; return what is wrong, if the speech has to end."""
        self._frames += 1
        cycle = self._repetition.add(codes)
        if cycle is not None:
            return f"it repeats the same {cycle / self._frame_rate:.2g} s of sound over and over"
        if self._frames >= self.most_frames:
            return f"{self._frames / self._frame_rate:.3g} s are far more than the text can take"
        return None


class RepetitionDetector:
    """Notices that the same frames come over and over, alone or as a cycle of up to 32 frames.

    Sampled speech, silence included, does not repeat all codes of a frame for long; two seconds of it are a loop.
    """

    def __init__(self) -> None:
        self._recent: deque[bytes] = deque(maxlen=_LONGEST_CYCLE)
        self._runs = [0] * (_LONGEST_CYCLE + 1)
        self._running = False

    def add(self, codes: NDArray[np.int32]) -> int | None:
        """Take note of the codes of the next frame; return the frames of a cycle that does not end, if any."""
        frame = codes.tobytes()
        if frame not in self._recent:
            if self._running:
                self._runs, self._running = [0] * (_LONGEST_CYCLE + 1), False
            self._recent.append(frame)
            return None
        self._running = True
        looping: int | None = None
        for cycle, earlier in enumerate(reversed(self._recent), start=1):
            if frame != earlier:
                self._runs[cycle] = 0
                continue
            self._runs[cycle] += 1
            if looping is None and self._runs[cycle] >= max(_REPEATED_FRAMES, _REPEATED_CYCLES * cycle):
                looping = cycle
        self._recent.append(frame)
        return looping


@lru_cache(maxsize=4096)
def _seconds(character: str) -> float:
    category = unicodedata.category(character)
    if category[0] == "L":
        if _is_syllabic(character):
            return _SYLLABLE_SECONDS
        return _CAPITAL_SECONDS if category == "Lu" else _LETTER_SECONDS
    if category[0] == "N":
        return _DIGIT_SECONDS
    if category[0] == "S":
        return _SYMBOL_SECONDS
    if category[0] in "PZ" or character.isspace():
        return _MARK_SECONDS
    return 0.0


def _is_syllabic(character: str) -> bool:
    code = ord(character)
    return (
        0x3005 <= code <= 0x3007
        or 0x3040 <= code <= 0x30FF  # Kana
        or 0x3400 <= code <= 0x9FFF  # Han
        or 0xAC00 <= code <= 0xD7A3  # Hangul
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
    )
