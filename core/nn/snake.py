"""Snake activation: x + sin^2(a x) / a (Ziyin et al., "Neural networks fail to learn periodic functions", 2020).

DAC has one frequency per channel; the Qwen3-TTS decoder uses the SnakeBeta form of BigVGAN (Lee et al., ICLR 2023): its
own magnitude next to the frequency, both stored as logarithms.
"""

from __future__ import annotations

import numpy as np

from ..engine import Tensor, WeightScope
from .activations import Activation
from .lanes import channels_first, time_first

_MAGNITUDE_FLOOR = 1e-9


class _Snake(Activation):
    """x + sin^2(x frequency) magnitude, per channel."""

    _fused_name = "snake"

    def __init__(self, scope: WeightScope, frequency: np.ndarray, magnitude: np.ndarray) -> None:
        frequency, magnitude = frequency.astype(np.float32), magnitude.astype(np.float32)
        self.frequency = scope.constant("frequency", frequency)
        self.magnitude = scope.constant("magnitude", magnitude)
        # A view as a column would be an operation between those that are to be found side by side.
        self._frequencies = scope.constant("frequencies", frequency[:, None])
        self._magnitudes = scope.constant("magnitudes", magnitude[:, None])

    @property
    def _vectors(self) -> list[Tensor]:
        return [self.frequency, self.magnitude]

    def by_steps(self, x: Tensor) -> Tensor:
        """Five operations, which GPU backends fuse where they find them one after the other over [time, channels]."""
        lines = time_first(x)
        lines = lines + (lines * self._frequencies).sin().sqr() * self._magnitudes
        return channels_first(lines, x.shape[2])


class Snake(_Snake):
    """x + sin^2(x alpha) / (alpha + 1e-9), one alpha per channel (Snake1d of DAC); weight `alpha` [channels]."""

    def __init__(self, scope: WeightScope) -> None:
        alpha = scope.array("alpha").reshape(-1)
        super().__init__(scope, alpha, 1.0 / (alpha + _MAGNITUDE_FLOOR))


class SnakeBeta(_Snake):
    """x + sin^2(x e^alpha) / (e^beta + 1e-9), one alpha and beta per channel; weights `alpha` and `beta` [channels]."""

    def __init__(self, scope: WeightScope) -> None:
        super().__init__(scope, *snake_beta(scope))


def snake_beta(scope: WeightScope) -> tuple[np.ndarray, np.ndarray]:
    """Return frequency and magnitude, float32 [channels], of `SnakeBeta` with these weights."""
    alpha, beta = scope.array("alpha").reshape(-1), scope.array("beta").reshape(-1)
    magnitude = 1.0 / (np.exp(beta) + _MAGNITUDE_FLOOR)
    return np.exp(alpha).astype(np.float32), magnitude.astype(np.float32)
