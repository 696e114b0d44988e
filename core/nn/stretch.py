"""Parts of a sequence, for layers that look both ways.

A layer whose output depends on what comes before and after cannot be fed piece by piece, but it can be computed tile by
tile: each tile is given as much of its surroundings as it depends on. A `Stretch` knows which part of a sequence it is,
so a layer knows where the sequence really ends, and zeros follow, and where only the tile does; there its result is
shorter than what it was given, and nothing is ever computed from a guess. So one definition of a layer serves the whole
sequence and every tile of it, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..engine import Tensor


@dataclass(frozen=True)
class Span:
    """Positions `first` to `end` (not included) of a sequence; may reach beyond its ends."""

    first: int
    end: int

    def __post_init__(self) -> None:
        if self.end <= self.first:
            raise ValueError(f"positions {self.first} to {self.end} are none")

    @property
    def length(self) -> int:
        """How many positions there are."""
        return self.end - self.first

    def within(self, total: int) -> Span:
        """Return the part that lies in a sequence of `total` positions."""
        return Span(max(0, self.first), min(total, self.end))

    def scaled(self, factor: int) -> Span:
        """Return the same time where every position has become `factor` of them."""
        return Span(self.first * factor, self.end * factor)


def tiles(total: int, length: int) -> Iterator[Span]:
    """Cut a sequence of `total` positions into spans of `length`; the last may be shorter."""
    for first in range(0, total, length):
        yield Span(first, min(total, first + length))


@dataclass(frozen=True)
class Stretch:
    """A part of a sequence of vectors.

    Attributes:
        values: [channels, time].
        first: where in the sequence the first of them is.
        total: how many positions the sequence has.
    """

    values: Tensor
    first: int
    total: int

    @classmethod
    def whole(cls, values: Tensor) -> Stretch:
        """Return a sequence [channels, time] that is all at hand."""
        return cls(values, 0, values.shape[1])

    @property
    def end(self) -> int:
        """The position behind the last."""
        length: int = self.values.shape[1]
        return self.first + length

    @property
    def begins(self) -> bool:
        """Whether the sequence begins here."""
        return self.first == 0

    @property
    def ends(self) -> bool:
        """Whether the sequence ends here."""
        return self.end == self.total

    def part(self, span: Span) -> Stretch:
        """Return the positions of `span`, which this stretch must hold."""
        if span.first < self.first or span.end > self.end:
            raise ValueError(
                f"positions {span.first} to {span.end} of a stretch from {self.first} to {self.end}"
            )
        if span.length == self.values.shape[1]:
            return self
        return Stretch(self.values.slice(1, span.first - self.first, span.length), span.first, self.total)

    def each(self, function: Callable[[Tensor], Tensor]) -> Stretch:
        """Apply a function of single positions, [channels, time] -> [other channels, time]."""
        return Stretch(function(self.values), self.first, self.total)

    def plus(self, other: Stretch) -> Stretch:
        """Add a stretch of the same sequence that lies inside this one: the sum is where both are."""
        part = self.part(Span(other.first, other.end))
        return Stretch(part.values + other.values, other.first, other.total)
