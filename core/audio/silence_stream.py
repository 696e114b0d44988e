"""Silence removal on speech that is still being made: the samples of `remove_silence`, each given out once it is final.

What is final follows from how silence is found (core/audio/silence.py). Only a silence that still goes on may be cut,
and only behind its first `middle` milliseconds. Of what is kept, the silence at the end may be cut, but never beyond a
step that is loud wherever the steps begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from .silence import SilenceRule, remove_silence, through_int16

FloatArray = NDArray[np.float32]

_FULL_SCALE = 32768
_STEP = 10
"""Milliseconds, as in `remove_silence`, and so is the level up to which a stretch is silent, -50 dB."""
_SILENT = 10 ** (-50 / 20) * _FULL_SCALE
_NOTHING = np.zeros(0, np.float32)
_ALL = 1 << 40


def silence_removed(
    pieces: Iterable[FloatArray], sample_rate: int, rule: SilenceRule
) -> Iterator[FloatArray]:
    """Yield the signal that the pieces [n] make as `remove_silence` returns it, as soon as it is final.

    A rate that has no whole number of samples in a millisecond is not worked on before the end.
    """
    if sample_rate % 1000 or rule.middle <= 0:
        yield remove_silence(np.concatenate([_NOTHING, *pieces]), sample_rate, rule)
        return
    middle, ends = _Middle(sample_rate, rule), _Ends(sample_rate, rule)
    for piece in pieces:
        heard = ends.feed(middle.feed(piece))
        if len(heard):
            yield heard
    yield np.concatenate([ends.feed(middle.end()), ends.end()])


class _Middle:
    """Cuts silences inside, in the order of time; positions are milliseconds from the beginning."""

    def __init__(self, sample_rate: int, rule: SilenceRule) -> None:
        self._per_millisecond = sample_rate // 1000
        self._length = rule.middle
        self._held, self._held_from = _NOTHING, 0
        self._squares, self._squares_from = np.zeros(0, np.int64), 0  # from the latest window on
        self._samples = 0
        self._next_window = 0
        self._silence: tuple[int, int] | None = None  # its beginning, and where its last window begins

    def feed(self, samples: FloatArray) -> FloatArray:
        """Take more samples [n]; return what is kept for certain by now."""
        samples = np.clip(samples, np.float32(-1), np.float32((_FULL_SCALE - 1) / _FULL_SCALE))
        self._append(samples)
        kept = [
            self._window(start, silent)
            for start, silent in self._windows(self._samples // self._per_millisecond)
        ]
        if self._next_window > 0:
            kept.append(self._close_if_over())
            kept.append(self._release())
        return np.concatenate([_NOTHING, *kept])

    def end(self) -> FloatArray:
        """Return the rest of what is kept."""
        total = round(self._samples / self._per_millisecond)
        self._fill_up_to(total)
        windows = [*self._windows(total)]
        last = total - self._length
        if last >= 0 and last % _STEP:
            windows.append((last, *self._are_silent(np.array([last]))))
        kept = [self._window(start, silent) for start, silent in windows]
        if self._silence is not None:
            begin, latest = self._silence
            if latest + self._length >= total:
                kept.append(self._take(begin + self._length if begin else 0))
                return np.concatenate([_NOTHING, *kept])
            kept.append(self._close())
        return np.concatenate([_NOTHING, *kept, self._held])

    def _append(self, samples: FloatArray) -> None:
        self._samples += len(samples)
        self._held = np.concatenate([self._held, samples])
        integers = (through_int16(samples) * _FULL_SCALE).astype(np.int64)
        self._squares = np.concatenate([self._squares, integers**2])

    def _fill_up_to(self, total: int) -> None:
        """Make the signal a whole number of milliseconds long, with zeros or by leaving out the rest."""
        missing = total * self._per_millisecond - self._samples
        if missing > 0:
            self._append(np.zeros(missing, np.float32))
        elif missing < 0:
            self._samples += missing
            self._held, self._squares = self._held[:missing], self._squares[:missing]

    def _windows(self, known: int) -> list[tuple[int, bool]]:
        """Return the windows that lie within the first `known` milliseconds and were not looked at: (begin, silent)."""
        starts = range(self._next_window, known - self._length + 1, _STEP)
        if not starts:
            return []
        silent = self._are_silent(np.array(starts))
        self._next_window = starts[-1] + _STEP
        self._squares = self._squares[(starts[-1] - self._squares_from) * self._per_millisecond :]
        self._squares_from = starts[-1]
        return list(zip(starts, silent, strict=True))

    def _are_silent(self, starts: NDArray[np.int_]) -> list[bool]:
        """Tell which of the windows that begin at these milliseconds are silent."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._squares)])
        window = self._length * self._per_millisecond
        at = (starts - self._squares_from) * self._per_millisecond
        levels = np.floor(np.sqrt((sums[at + window] - sums[at]) / window))
        silent: list[bool] = (levels <= _SILENT).tolist()
        return silent

    def _window(self, start: int, silent: bool) -> FloatArray:
        """Take note of the next window; return what it makes certain."""
        if not silent:
            return _NOTHING
        kept = _NOTHING
        if self._silence is not None:
            begin, latest = self._silence
            if start <= latest + self._length:
                self._silence = begin, start
                return _NOTHING
            kept = self._close()
        self._silence = start, start
        return kept

    def _close_if_over(self) -> FloatArray:
        if self._silence is None or self._next_window - _STEP < self._silence[1] + self._length:
            return _NOTHING
        return self._close()

    def _close(self) -> FloatArray:
        """Cut the silence that has come to its end; return what is kept up to there."""
        assert self._silence is not None
        begin, latest = self._silence
        end, self._silence = latest + self._length, None
        if begin and end - begin <= 2 * self._length:
            return self._take(end)
        kept = self._take(begin + self._length if begin else 0)
        self._take(end - self._length)
        return kept

    def _release(self) -> FloatArray:
        """Return what no later window can make a cut of."""
        if self._silence is not None:
            begin, _ = self._silence
            return self._take(begin + self._length if begin else 0)
        return self._take(self._next_window - _STEP + self._length)

    def _take(self, end: int) -> FloatArray:
        """Take what is held up to a millisecond."""
        count = max(0, (end - self._held_from) * self._per_millisecond)
        taken, self._held = self._held[:count], self._held[count:]
        self._held_from += len(taken) // self._per_millisecond
        return taken


class _Ends:
    """Cuts the silence at the beginning and at the end."""

    def __init__(self, sample_rate: int, rule: SilenceRule) -> None:
        self._rate, self._rule = sample_rate, rule
        self._step = _STEP * sample_rate // 1000
        self._held = _NOTHING
        self._started = False

    def feed(self, samples: FloatArray) -> FloatArray:
        """Take more samples [n]; return what is kept for certain by now."""
        self._held = np.concatenate([self._held, samples])
        levels = self._levels()
        if not self._started:
            loud = np.flatnonzero(np.floor(levels) >= _SILENT)
            if not len(loud):
                return _NOTHING
            cut = int(loud[0]) * self._step - self._rule.leading * self._rate // 1000
            self._held, self._started = self._held[max(0, cut) :], True
            levels = self._levels()
        # So loud that of the two steps that share it, however they begin, one is loud.
        certain = np.flatnonzero(levels >= 2 * _SILENT)
        count = max(0, int(certain[-1]) - 1) * self._step if len(certain) else 0
        heard, self._held = self._held[:count], self._held[count:]
        return heard

    def end(self) -> FloatArray:
        """Return the rest of what is kept."""
        leading = _ALL if self._started else self._rule.leading
        return remove_silence(self._held, self._rate, SilenceRule(0, leading, self._rule.trailing))

    def _levels(self) -> NDArray[np.float64]:
        """RMS, in 16-bit steps, of each whole step of what is held."""
        whole = len(self._held) // self._step * self._step
        steps = (through_int16(self._held[:whole]) * _FULL_SCALE).astype(np.int64).reshape(-1, self._step)
        levels: NDArray[np.float64] = np.sqrt((steps**2).sum(axis=1) / self._step)
        return levels
