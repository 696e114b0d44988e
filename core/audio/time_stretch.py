"""Speech made faster or slower at the same pitch.

WSOLA: W. Verhelst and M. Roelands, "An overlap-add technique based on waveform similarity (WSOLA) for high quality
time-scale modification of speech", ICASSP 1993. Frames are taken from the input at another pace than they are laid
down, each from the place, near the one that is due, where it continues the frame before best. Periods of voiced speech
stay whole, consonants stay sharp; a phase vocoder would smear them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

_FRAME_SECONDS = 0.03
"""Two to three periods of a low voice."""
_SEARCH_SECONDS = 0.01
"""How far a frame may be from its due place, to either side: a period of a voice of 50 Hz is within reach."""
_TINY = 1e-9


def stretch(samples: FloatArray, ratio: float, sample_rate: int) -> FloatArray:
    """Return speech `ratio` times as fast, at the same pitch.

    Args:
        samples: float32 [n].
        ratio: above 1 is faster, below 1 slower; 0.5 to 2 sounds natural.
        sample_rate: in Hz.

    Returns:
        float32 [round(n / ratio)].

    Raises:
        ValueError: the ratio is not a positive number.
    """
    stretcher = Stretcher(ratio, sample_rate)
    return np.concatenate([stretcher.push(samples), stretcher.finish()])


class Stretcher:
    """Speech made faster or slower while it arrives: what `stretch` returns, however it is cut. Memory is flat."""

    def __init__(self, ratio: float, sample_rate: int) -> None:
        """See `stretch`.

        Raises:
            ValueError: the ratio is not a positive number.
        """
        if not 0 < ratio < np.inf:
            raise ValueError(f"speech cannot be {ratio} times as fast")
        self._ratio = ratio
        self._hop = hop = max(1, round(_FRAME_SECONDS * sample_rate / 2))
        self._search = search = round(_SEARCH_SECONDS * sample_rate)
        self._source = np.zeros(hop + search, np.float32)
        self._dropped = 0
        """How much of the source is not needed any more, and not kept."""
        self._received = 0
        self._frame = 0
        self._position = search
        self._overlap = np.zeros(hop, np.float32)

    @cached_property
    def _window(self) -> FloatArray:
        """Two of these, a hop apart, add up to 1."""
        hop = self._hop
        return (0.5 - 0.5 * np.cos(np.pi * np.arange(2 * hop) / hop)).astype(np.float32)

    def push(self, samples: FloatArray) -> FloatArray:
        """Take samples [n]; return those [m] that can be made by now."""
        self._received += len(samples)
        if self._ratio == 1:
            return samples
        self._source = np.concatenate([self._source, samples])
        hops: list[FloatArray] = []
        while self._last_needed(self._due()) <= self._dropped + len(self._source):
            hops += self._lay_frame(self._due())
        self._forget()
        return np.concatenate(hops) if hops else np.zeros(0, np.float32)

    def finish(self) -> FloatArray:
        """Return the rest [m]; nothing can be pushed any more."""
        if self._ratio == 1:
            return np.zeros(0, np.float32)
        hop, length = self._hop, round(self._received / self._ratio)
        made = max(0, self._frame - 1) * hop
        self._source = np.pad(self._source, (0, 3 * hop + 2 * self._search))
        hops: list[FloatArray] = []
        for _ in range(self._frame, -(-length // hop) + 1):
            hops += self._lay_frame(min(self._due(), self._search + self._received + hop))
        return np.concatenate([*hops, np.zeros(0, np.float32)])[: length - made]

    def _due(self) -> int:
        """Where in the source the next frame would begin, if it did not have to fit to the one before."""
        return self._search + round(self._frame * self._hop * self._ratio)

    def _last_needed(self, due: int) -> int:
        """How much of the source a frame looks at."""
        return max(due + self._search + 2 * self._hop, self._position + 3 * self._hop)

    def _lay_frame(self, due: int) -> list[FloatArray]:
        """Lay the next frame down; return the samples that are complete by that, none for the very first frame."""
        hop, first = self._hop, self._frame == 0
        if not first:
            natural = self._position + hop - self._dropped
            self._position = due + _best_shift(self._source, natural, due - self._dropped, hop, self._search)
        begin = self._position - self._dropped
        frame = self._window * self._source[begin : begin + 2 * hop]
        complete = self._overlap + frame[:hop]
        self._overlap = frame[hop:]
        self._frame += 1
        return [] if first else [complete]

    def _forget(self) -> None:
        needless = min(self._position + self._hop, self._due() - self._search) - self._dropped
        if needless > 0:
            self._source = self._source[needless:].copy()
            self._dropped += needless


def _best_shift(source: FloatArray, natural: int, due: int, hop: int, search: int) -> int:
    """Return by how many samples the frame at `due` has to move to resemble what follows the frame before it.

    Resemblance is the normalised cross-correlation with the natural continuation, over a whole frame.
    """
    wanted = source[natural : natural + 2 * hop]
    region = source[due - search : due + search + 2 * hop]
    products = sliding_window_view(region, 2 * hop) @ wanted
    sums = np.concatenate([[0.0], np.cumsum(np.square(region, dtype=np.float64))])
    energy = sums[2 * hop :] - sums[: -2 * hop]
    likeness = products / np.sqrt(np.maximum(energy, 0) + _TINY)
    # Of equally good places (silence) the due one is taken.
    likeness[search] += _TINY
    return int(np.argmax(likeness)) - search
