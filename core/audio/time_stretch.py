"""Speech made faster or slower at the same pitch.

WSOLA: W. Verhelst and M. Roelands, "An overlap-add technique based on waveform similarity (WSOLA) for high quality
time-scale modification of speech", ICASSP 1993. Frames are taken from the input at another pace than they are laid
down, each from the place, near the one that is due, where it continues the frame before best. Periods of voiced speech
stay whole, consonants stay sharp; a phase vocoder would smear them.
"""

from __future__ import annotations

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
    if not 0 < ratio < np.inf:
        raise ValueError(f"speech cannot be {ratio} times as fast")
    length = round(len(samples) / ratio)
    if ratio == 1 or length == 0:
        return np.array(samples[:length])
    hop = max(1, round(_FRAME_SECONDS * sample_rate / 2))
    search = round(_SEARCH_SECONDS * sample_rate)
    source = np.pad(samples, (hop + search, 3 * hop + 2 * search))
    window = (0.5 - 0.5 * np.cos(np.pi * np.arange(2 * hop) / hop)).astype(np.float32)
    frames = -(-length // hop) + 1
    output = np.zeros((frames + 1) * hop, np.float32)
    position = search
    for frame in range(frames):
        if frame:
            due = search + min(round(frame * hop * ratio), len(samples) + hop)
            position = due + _best_shift(source, position + hop, due, hop, search)
        begin = frame * hop
        output[begin : begin + 2 * hop] += window * source[position : position + 2 * hop]
    return output[hop : hop + length]


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
