"""Silence removal, cut for cut as the OmniVoice package does it with pydub (omnivoice.utils.audio.remove_silence).

pydub works on 16-bit samples in whole milliseconds: a stretch is silent when its RMS, rounded down, is at most the
threshold. All decisions here are made on a 16-bit copy; what is cut is the float signal, so that nothing is lost to
rounding. `through_int16` gives the samples that the official package goes on with.

It works on a stream and keeps back no more than the decisions need: a pause that may turn out to be too long, and the
silence at the end. The whole signal at once is the same with one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Milliseconds = NDArray[np.float32]
"""Samples [milliseconds, samples per millisecond]."""
Excesses = NDArray[np.int64]
"""[milliseconds]: energy of 16-bit samples above the threshold. A stretch is silent when their sum is negative."""

_FULL_SCALE = 32768
_STEP = 10
"""Milliseconds from one place where silence is looked for to the next, and of the blocks at the ends."""
_QUIETEST_SOUND = int(10 ** (-50 / 20) * _FULL_SCALE) + 1
"""RMS in 16-bit steps: the first integer above -50 dB of full scale."""


@dataclass(frozen=True)
class SilenceRule:
    """How much silence stays, in milliseconds."""

    middle: int
    """Silence inside is cut to twice this, a multiple of ten; 0 leaves it alone."""
    leading: int
    trailing: int


REFERENCE_SILENCE = SilenceRule(middle=200, leading=100, trailing=200)
"""For a reference recording."""
SPEECH_SILENCE = SilenceRule(middle=500, leading=100, trailing=100)
"""For generated speech."""


def remove_silence(samples: FloatArray, sample_rate: int, rule: SilenceRule) -> FloatArray:
    """Return mono samples [n] without excess silence, clipped to full scale; [0] when all of them are silent.

    The length becomes a whole number of milliseconds: the last one is dropped or filled with zeros.

    Raises:
        ValueError: the rate is not a multiple of 1000 Hz.
    """
    return np.concatenate([np.zeros(0, np.float32), *silence_removed([samples], sample_rate, rule)])


def silence_removed(
    pieces: Iterable[FloatArray], sample_rate: int, rule: SilenceRule
) -> Iterator[FloatArray]:
    """Yield what `remove_silence` makes of the signal that the pieces [n] make, as soon as it is final.

    Raises:
        ValueError: the rate is not a multiple of 1000 Hz.
    """
    if sample_rate < 1 or sample_rate % 1000:
        raise ValueError(f"silence is removed in milliseconds, so {sample_rate} Hz is no possible rate")
    width = sample_rate // 1000
    pauses, ends = _PauseCutter(rule.middle, width), _EndTrimmer(rule, width)
    for block in _milliseconds(pieces, width):
        yield ends.feed(pauses.feed(block)).reshape(-1)
    yield ends.feed(pauses.finish()).reshape(-1)
    yield ends.finish().reshape(-1)


def through_int16(samples: FloatArray) -> FloatArray:
    """Return samples as 16-bit integers hold them, rounded toward zero and clipped."""
    floats: FloatArray = _int16(samples).astype(np.float32) / np.float32(_FULL_SCALE)
    return floats


class _PauseCutter:
    """Shortens pauses to a margin at each side of speech; takes and gives whole milliseconds.

    A pause is made of overlapping windows, a margin long, that are silent. It can grow as long as a silent window may
    still overlap it.
    """

    def __init__(self, margin: int, width: int) -> None:
        self._margin = margin
        self._held = np.zeros((0, width), np.float32)
        self._begin = 0  # of what is held
        self._excesses = np.zeros(0, np.int64)
        self._excesses_begin = 0
        self._next = 0  # window that has not been looked at
        self._pause: tuple[int, int] | None = None  # starts of its first and of its last window
        self._ready: list[Milliseconds] = []

    def feed(self, block: Milliseconds) -> Milliseconds:
        """Take the next milliseconds; return what will stay."""
        if not self._margin:
            return block
        self._held = np.concatenate([self._held, block])
        self._excesses = np.concatenate([self._excesses, _excesses(block)])
        self._look()
        if self._pause is not None:
            self._release(self._end_of_speech(self._pause))
        elif self._next:
            self._release(self._end)
        return self._take()

    def finish(self) -> Milliseconds:
        """Return the rest of what stays."""
        if self._next:
            self._look_at_the_end()
        if self._pause is not None:
            if self._pause[1] + self._margin == self._end:
                self._release(self._end_of_speech(self._pause))
                return self._take()
            self._close(self._pause)
        self._release(self._end)
        return self._take()

    @property
    def _end(self) -> int:
        return self._begin + len(self._held)

    def _look(self) -> None:
        """Look at every window that is complete."""
        excesses = self._excesses[self._next - self._excesses_begin :]
        if len(excesses) < self._margin:
            return
        for silent in _are_silent(excesses, self._margin)[::_STEP]:
            if silent:
                self._pause = (self._pause[0] if self._pause else self._next, self._next)
            elif self._pause is not None and self._next >= self._pause[1] + self._margin:
                self._close(self._pause)
            self._next += _STEP
        # The last window of all may begin before the next one.
        kept = self._next - _STEP
        self._excesses = self._excesses[kept - self._excesses_begin :]
        self._excesses_begin = kept

    def _look_at_the_end(self) -> None:
        """Look at the last window of all, unless that has been done."""
        last = self._end - self._margin
        if last % _STEP and _are_silent(self._excesses[last - self._excesses_begin :], self._margin)[0]:
            self._pause = (self._pause[0] if self._pause else last, last)

    def _end_of_speech(self, pause: tuple[int, int]) -> int:
        """Where the margin after the speech before a pause ends; a pause at the beginning has no speech before it."""
        return pause[0] + self._margin if pause[0] else self._begin

    def _close(self, pause: tuple[int, int]) -> None:
        """Cut out what is too much of a pause: speech goes on behind it."""
        self._release(self._end_of_speech(pause))
        begin_of_speech = max(pause[1], self._begin)
        self._held = self._held[begin_of_speech - self._begin :]
        self._begin = begin_of_speech
        self._pause = None

    def _release(self, end: int) -> None:
        count = max(0, end - self._begin)
        self._ready.append(self._held[:count])
        self._held = self._held[count:]
        self._begin += count

    def _take(self) -> Milliseconds:
        ready, self._ready = self._ready, []
        return np.concatenate([self._held[:0], *ready])


class _EndTrimmer:
    """Cuts the silence before and after everything; takes and gives whole milliseconds."""

    def __init__(self, rule: SilenceRule, width: int) -> None:
        self._rule = rule
        self._held = np.zeros((0, width), np.float32)
        self._excesses = np.zeros(0, np.int64)
        self._given = 0  # milliseconds of what is held that have been returned
        self._started = False

    def feed(self, block: Milliseconds) -> Milliseconds:
        """Take the next milliseconds; return what will stay."""
        self._held = np.concatenate([self._held, block])
        self._excesses = np.concatenate([self._excesses, _excesses(block)])
        whole = len(self._held) // _STEP * _STEP
        if not self._started and _silent_start(self._excesses[:whole]) < whole:
            self._start()
        if not self._started:
            return self._held[:0]
        return self._release()

    def finish(self) -> Milliseconds:
        """Return the rest of what stays."""
        if not self._started:
            self._start()
        silent = _silent_start(self._excesses[::-1])
        return self._held[self._given : len(self._held) - max(0, silent - self._rule.trailing)]

    def _start(self) -> None:
        self._forget(max(0, _silent_start(self._excesses) - self._rule.leading))
        self._started = True

    def _release(self) -> Milliseconds:
        """Return what is not at the end any more.

        The blocks at the end are counted from there, so a place is certain only when ten windows in a row are loud:
        one of them will be a block.
        """
        if len(self._held) < 2 * _STEP:
            return self._held[:0]
        loud = ~_are_silent(self._excesses, _STEP)
        certain = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(loud, _STEP).all(axis=1))
        if not len(certain):
            return self._held[:0]
        end = min(len(self._held), int(certain[-1]) + _STEP + self._rule.trailing)
        released = self._held[self._given : end]
        self._given = end
        self._forget(int(certain[-1]))
        return released

    def _forget(self, count: int) -> None:
        self._held, self._excesses = self._held[count:], self._excesses[count:]
        self._given = max(0, self._given - count)


def _milliseconds(pieces: Iterable[FloatArray], width: int) -> Iterator[Milliseconds]:
    """Yield whole milliseconds of the pieces, clipped; of the end what rounds to one (half to even)."""
    rest = np.zeros(0, np.float32)
    count = 0
    for piece in pieces:
        samples = np.concatenate([rest, piece])
        whole = len(samples) // width
        count += whole
        rest = samples[whole * width :]
        yield _clipped(samples[: whole * width]).reshape(-1, width)
    seconds = (count * width + len(rest)) / (1000 * width)
    if round(1000 * seconds) > count:
        yield _clipped(np.pad(rest, (0, width - len(rest)))).reshape(-1, width)


def _clipped(samples: FloatArray) -> FloatArray:
    return np.clip(samples, np.float32(-1), np.float32((_FULL_SCALE - 1) / _FULL_SCALE))


def _int16(samples: FloatArray) -> NDArray[np.int16]:
    scaled = np.clip(samples * np.float32(_FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    integers: NDArray[np.int16] = scaled.astype(np.int16)
    return integers


def _excesses(block: Milliseconds) -> Excesses:
    """Energy of each millisecond above the quietest that is not silent."""
    squares = _int16(block).astype(np.int64) ** 2
    excesses: Excesses = squares.sum(axis=1) - _QUIETEST_SOUND**2 * block.shape[1]
    return excesses


def _are_silent(excesses: Excesses, length: int) -> NDArray[np.bool_]:
    """Tell of every window of so many milliseconds whether it is silent."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(excesses)])
    silent: NDArray[np.bool_] = sums[length:] < sums[:-length]
    return silent


def _silent_start(excesses: Excesses) -> int:
    """Return the milliseconds before the first block that is not silent."""
    blocks = np.add.reduceat(excesses, np.arange(0, len(excesses), _STEP)) if len(excesses) else excesses
    loud = np.flatnonzero(blocks >= 0)
    return int(loud[0]) * _STEP if len(loud) else len(excesses)
