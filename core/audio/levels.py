"""Loudness, fades and joints of OmniVoice's speech (omnivoice.utils.audio, and what the official model does with it).

Joining and fading take pieces as they are made and give samples as soon as they are final; the whole signal at once
is the same with one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

QUIET_RMS = 0.1
"""References below this RMS are raised to it, and speech made from them is lowered again."""
_PEAK_WITHOUT_REFERENCE = 0.5
_SILENT_PEAK = 1e-6
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Edges:
    """What is done to the beginning and the end of speech.

    Attributes:
        fade: seconds that it takes to become as loud as it is, and to die away.
        pad: seconds of silence put before and behind.
    """

    fade: float = 0.1
    pad: float = 0.1


DEFAULT_EDGES = Edges()


def rms(samples: FloatArray) -> float:
    """Return the root mean square of samples [n], in single precision as the official package; 0 for none."""
    return float(np.sqrt(np.mean(samples**2))) if len(samples) else 0.0


def raise_quiet(samples: FloatArray, level: float) -> FloatArray:
    """Return a reference [n] of RMS `level`, raised to `QUIET_RMS` if it is quieter; silence stays silence."""
    if 0 < level < QUIET_RMS:
        raised: FloatArray = samples * np.float32(QUIET_RMS) / np.float32(level)
        return raised
    return samples


def match_level(samples: FloatArray, reference_rms: float | None) -> FloatArray:
    """Return speech [n] as loud as its reference, or with a peak of one half when there is none.

    Args:
        samples: as the codec made them.
        reference_rms: of the reference before it was raised.
    """
    peak = float(np.max(np.abs(samples), initial=0.0))
    factor = level_factor(peak, reference_rms)
    return samples if factor == 1.0 else samples * np.float32(factor)


def level_factor(peak: float, reference_rms: float | None) -> float:
    """Return what `match_level` multiplies speech of this peak by."""
    if reference_rms is not None:
        return min(1.0, reference_rms / QUIET_RMS)
    return _PEAK_WITHOUT_REFERENCE / peak if peak > _SILENT_PEAK else 1.0


def fade_and_pad(samples: FloatArray, sample_rate: int, edges: Edges = DEFAULT_EDGES) -> FloatArray:
    """Return samples [n] faded in and out, with silence around; a fade takes at most half. Nothing stays nothing."""
    return _whole(faded_and_padded([samples], sample_rate, edges))


def faded_and_padded(
    pieces: Iterable[FloatArray], sample_rate: int, edges: Edges = DEFAULT_EDGES
) -> Iterator[FloatArray]:
    """Yield the signal that the pieces [n] make, faded and padded as by `fade_and_pad`, as soon as it is final."""
    fade, pad = int(edges.fade * sample_rate), np.zeros(int(edges.pad * sample_rate), np.float32)
    held, started = _NOTHING, False
    for piece in pieces:
        held = np.concatenate([held, piece])
        if not started and len(held) >= 2 * fade and len(held):
            held = np.concatenate([pad, _faded_in(held, fade)])
            started = True
        if started:
            final = len(held) - fade
            yield held[:final]
            held = held[final:]
    if not started and len(held):
        fade = len(held) // 2
        held = np.concatenate([pad, _faded_in(held, fade)])
        started = True
    if started:
        yield np.concatenate([_faded_out(held, fade), pad])


def cross_fade(pieces: list[FloatArray], sample_rate: int, pause: float = 0.3) -> FloatArray:
    """Return the pieces [n] joined by a fade-out, silence and a fade-in of a third of `pause` seconds each.

    The fades lie inside the pieces, so that each joint makes the signal a third of `pause` longer. They shrink to the
    length of short pieces.
    """
    return _whole(cross_faded(pieces, sample_rate, pause))


def cross_faded(pieces: Iterable[FloatArray], sample_rate: int, pause: float = 0.3) -> Iterator[FloatArray]:
    """Yield what `cross_fade` returns, as soon as it is final: all of a piece but its end when it arrives."""
    fade = int(pause * sample_rate) // 3
    held: FloatArray | None = None
    for piece in pieces:
        if held is None:
            held = piece
        else:
            yield _faded_out(held, fade)
            # The fade-out of a short piece begins in the silence before it.
            held = np.concatenate([np.zeros(fade, np.float32), _faded_in(piece, min(fade, len(piece)))])
        final = max(0, len(held) - fade)
        yield held[:final]
        held = held[final:]
    if held is not None:
        yield held


def _faded_in(samples: FloatArray, count: int) -> FloatArray:
    faded = samples.astype(np.float32)
    faded[:count] *= np.linspace(0, 1, count, dtype=np.float32)
    return faded


def _faded_out(samples: FloatArray, count: int) -> FloatArray:
    count = min(count, len(samples))
    faded = samples.astype(np.float32)
    faded[len(faded) - count :] *= np.linspace(1, 0, count, dtype=np.float32)
    return faded


def _whole(pieces: Iterator[FloatArray]) -> FloatArray:
    return np.concatenate([_NOTHING, *pieces])
