"""The ranges of the numbers that a user may set, for commands and library alike.

They are far wider than what is of use, and narrow enough that arithmetic in float32 and int32 holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import UsageError

LARGEST_COUNT = 2**31 - 1
"""Of frames, of likely codes."""
LONGEST_SECONDS = 86_400.0
"""A day of audio in one piece."""
MOST_TEXT_BYTES = 64 << 20
"""Of a text, or of a line of one: months of speech. Whoever pipes in more has mistaken something for a text."""
MOST_STEPS = 100_000
"""More than there are codes to find."""


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`; `zero` says what 0 means where it is accepted besides."""

    least: float
    most: float
    zero: str = ""

    def __contains__(self, value: float) -> bool:
        return math.isfinite(value) and (self.least <= value <= self.most or (value == 0 and bool(self.zero)))

    def __str__(self) -> str:
        return f"{f'0 ({self.zero}) or ' if self.zero else ''}{self.least:g} to {self.most:g}"

    def require(self, name: str, value: float) -> None:
        """Raise UsageError, which names the range, unless a value is within it."""
        if value not in self:
            raise UsageError(f"{name} {value} is not usable: it must be {self}")


TEMPERATURE = Range(1e-37, 1e37, zero="greedy")
PENALTY = Range(1e-6, 1e6)
SHIFT = Range(1e-6, 1e6)
GUIDANCE = Range(0.0, 1e6)
LAYER_PENALTY = Range(-1e6, 1e6)
NOISE = Range(1e-6, 1e6, zero="none")
SPEED = Range(0.1, 10.0)
EDGE = Range(0.0, LONGEST_SECONDS)
