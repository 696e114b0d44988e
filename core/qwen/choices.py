"""How the codes of a frame are chosen from their logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..sampling import SamplingOptions

FloatArray = NDArray[np.float32]

Choose = Callable[[FloatArray, int], int]
"""(logits [entries], codebook) -> code."""


@dataclass(frozen=True)
class SampledChoice:
    """A `Choose` for one frame that also says what it does: a device can do the same, where the logits are.

    Attributes:
        options: the chain; without a repetition penalty, for a device remembers no codes.
        seed: of the utterance.
        frame: number of the frame.
        draw: the chain on the host, (frame, logits [entries], codebook) -> code.
    """

    options: SamplingOptions
    seed: int
    frame: int
    draw: Callable[[int, FloatArray, int], int]

    def __call__(self, logits: FloatArray, codebook: int) -> int:
        """Draw the code of a codebook."""
        return self.draw(self.frame, logits, codebook)
