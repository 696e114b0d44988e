"""How alike two utterances sound: mel-frequency cepstra, aligned by dynamic time warping.

Davis and Mermelstein, "Comparison of parametric representations for monosyllabic word recognition" (1980), and Sakoe
and Chiba, "Dynamic programming algorithm optimization for spoken word recognition" (1978). Nothing of the code under
test is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]

FRAMES_PER_SECOND = 50
WINDOW_SECONDS = 0.0427
COEFFICIENTS = 12
BANDS = 32
LOWEST_HERTZ, HIGHEST_HERTZ = 80.0, 8000.0
EMPHASIS = 0.95


def cepstra(samples: Array, rate: int) -> Array:
    """Return the cepstra [frames, COEFFICIENTS] of mono samples [n] within [-1, 1] at `rate` Hz.

    Each coefficient has mean 0 and deviation 1 over the utterance, so that level and microphone do not count.
    """
    emphasised = np.append(samples[:1], samples[1:] - EMPHASIS * samples[:-1])
    window = round(WINDOW_SECONDS * rate)
    starts = np.arange(0, len(samples), rate / FRAMES_PER_SECOND).astype(int)
    padded = np.pad(emphasised, (window // 2, window))
    frames = padded[starts[:, None] + np.arange(window)] * np.hanning(window)
    power = np.abs(np.fft.rfft(frames)) ** 2
    logarithms = np.log(power @ _mel_filters(window, rate).T + 1e-4)
    coefficients = logarithms @ _cosines().T
    result: Array = (coefficients - coefficients.mean(0)) / (coefficients.std(0) + 1e-3)
    return result


def alignment_costs(speech: Array, references: Sequence[Array]) -> Array:
    """Return how far `speech` [frames, n] is from each reference [frames, n], along the best alignment of the two.

    The distance is per frame of both together, in deviations of the coefficients. All references are aligned at once,
    one antidiagonal of their tables after the other.
    """
    rows, widths = len(speech), np.array([len(reference) for reference in references])
    columns = int(widths.max())
    padded = np.stack([np.pad(item, ((0, columns - len(item)), (0, 0))) for item in references])
    distances = _distances(speech, padded)
    totals = np.full((len(references), rows + 1, columns + 1), np.inf)
    totals[:, 0, 0] = 0
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        column = diagonal - row
        before = np.minimum(totals[:, row - 1, column], totals[:, row, column - 1])
        before = np.minimum(before, totals[:, row - 1, column - 1])
        totals[:, row, column] = distances[:, row - 1, column - 1] + before
    result: Array = totals[np.arange(len(references)), rows, widths] / (rows + widths)
    return result


def _distances(speech: Array, references: Array) -> Array:
    """Euclidean distances [references, rows, columns] of frames [rows, n] and [references, columns, n]."""
    squares = (speech**2).sum(-1)[:, None] + (references**2).sum(-1)[:, None]
    result: Array = np.sqrt(np.maximum(0, squares - 2 * speech @ references.transpose(0, 2, 1)))
    return result


def _mel_filters(window: int, rate: int) -> Array:
    """Triangles [BANDS, window // 2 + 1], evenly spaced on the mel scale of O'Shaughnessy (1987)."""
    mels = np.linspace(_to_mel(LOWEST_HERTZ), _to_mel(HIGHEST_HERTZ), BANDS + 2)
    corners = 700 * (10 ** (mels / 2595) - 1)
    frequencies = np.fft.rfftfreq(window, 1 / rate)
    widths = np.diff(corners)[:, None]
    rising = (frequencies - corners[:-2, None]) / widths[:-1]
    falling = (corners[2:, None] - frequencies) / widths[1:]
    return np.maximum(0, np.minimum(rising, falling))


def _cosines() -> Array:
    """The cosine transform [COEFFICIENTS, BANDS] without its constant row, which is the level."""
    order = np.arange(1, COEFFICIENTS + 1)[:, None]
    return np.cos(np.pi / BANDS * order * (np.arange(BANDS) + 0.5))


def _to_mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))
