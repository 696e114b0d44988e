"""Joining pieces of speech that were made one by one: no clicks, no long gaps, no rushed sentences.

Works on a stream: what is held back is silence that may turn out to be too much, and a few milliseconds that may have
to be faded out. How the samples of a piece are handed over makes no difference to the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

_WINDOW_SECONDS = 0.01
_SILENCE = 10 ** (-45 / 20)
"""Peak of a window, as a part of full scale, below which it is silent: breath is above, the noise of a room below."""
_ONSET_SECONDS = 0.03
"""Kept before the first loud window of a piece: consonants begin softly."""
_FADE_SECONDS = 0.005


@dataclass(frozen=True)
class Gap:
    """How long the silence between two pieces may be, in seconds."""

    shortest: float
    longest: float


class Joiner:
    """Puts pieces of mono samples one behind the other.

    The beginning of the first piece and the end of the last one stay as they are, so that a single piece passes
    unchanged and at once.
    """

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._window = self._samples(_WINDOW_SECONDS)
        self._fade = np.linspace(0, 1, self._samples(_FADE_SECONDS), endpoint=False, dtype=np.float32)
        self._gap_before: Gap | None = None
        self._gap: Gap | None = None
        self._silent_end = 0  # samples of silence that the pieces so far end in
        self._started = True
        self._waiting = _NOTHING  # less than a window, not judged yet
        self._held = _NOTHING
        self._quiet = 0

    def begin(self, gap: Gap | None) -> None:
        """Begin the next piece; `gap` is what follows it, None after the last piece."""
        self._gap_before, self._gap = self._gap, gap
        self._started = self._gap_before is None
        self._waiting = self._held = _NOTHING
        self._quiet = 0

    def feed(self, samples: FloatArray) -> FloatArray:
        """Take more samples [n] of the piece; return what can be heard by now, [m]."""
        if self._passes():
            return samples
        waiting = np.concatenate([self._waiting, samples])
        whole = len(waiting) // self._window * self._window
        self._waiting = waiting[whole:]
        heard = self._judge(waiting[:whole])
        if self._passes():
            heard = np.concatenate([heard, self._waiting])
            self._waiting = _NOTHING
        return heard

    def end(self) -> FloatArray:
        """End the piece; return the rest of it, [m]."""
        if self._passes():
            return _NOTHING
        heard = self._judge(self._waiting)
        self._waiting = _NOTHING
        if not self._started:
            return heard
        rest = self._held
        if self._gap is not None:
            longest = self._samples(self._gap.longest)
            rest = rest[: len(rest) - max(0, self._quiet - longest)].copy()
            self._silent_end = min(self._quiet, longest)
            fade = self._fade[: len(rest)]
            rest[len(rest) - len(fade) :] *= fade[::-1]
        return np.concatenate([heard, rest])

    def _passes(self) -> bool:
        """Tell whether everything that comes is heard at once: nothing is left to decide in the last piece."""
        return self._started and self._gap is None

    def _judge(self, samples: FloatArray) -> FloatArray:
        """Take whole windows [n], or the rest of the piece; return what can be heard by now."""
        if not len(samples):
            return _NOTHING
        self._held = np.concatenate([self._held, samples])
        loud = _loud_windows(samples, self._window)
        if not len(loud):
            self._quiet += len(samples)
        else:
            begin = len(self._held) - len(samples) + int(loud[0]) * self._window
            self._quiet = max(0, len(samples) - (int(loud[-1]) + 1) * self._window)
            if not self._started:
                self._start(begin)
        if not self._started:
            # Nothing of the silence before a piece is needed beyond the longest gap.
            self._held = self._held[-self._longest_before() :]
            return _NOTHING
        return self._release()

    def _start(self, begin: int) -> None:
        """Cut the silence before the first loud sample, which stands at `begin`, to what is left of the gap."""
        assert self._gap_before is not None
        room = max(self._longest_before() - self._silent_end, self._samples(_ONSET_SECONDS))
        kept = min(begin, room)
        piece = self._held[begin - kept :].copy()
        fade = self._fade[: len(piece)]
        piece[: len(fade)] *= fade
        missing = self._samples(self._gap_before.shortest) - self._silent_end - kept
        self._held = np.concatenate([np.zeros(max(0, missing), np.float32), piece])
        self._started = True

    def _release(self) -> FloatArray:
        """Return what is held and will not change any more."""
        end = len(self._held)
        if self._gap is not None:
            excess = self._quiet - self._samples(self._gap.longest)
            end = max(0, end - max(0, excess) - len(self._fade))
        heard, self._held = self._held[:end], self._held[end:]
        return heard

    def _longest_before(self) -> int:
        assert self._gap_before is not None
        return max(self._samples(self._gap_before.longest), self._samples(_ONSET_SECONDS))

    def _samples(self, seconds: float) -> int:
        return round(seconds * self._rate)


_NOTHING = np.zeros(0, np.float32)


def _loud_windows(samples: FloatArray, window: int) -> NDArray[np.intp]:
    """Return the numbers of the windows that are not silent."""
    padded = np.pad(np.abs(samples), (0, -len(samples) % window))
    return np.flatnonzero(padded.reshape(-1, window).max(axis=1) >= _SILENCE)
