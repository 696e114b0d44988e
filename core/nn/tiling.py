"""Long sequences tile by tile, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Graph, Program
from .stages import StagesOf, result
from .stretch import Span, Stretch, tiles

Arrays = Mapping[str, NDArray[np.generic]]


class TiledNetwork(Protocol):
    """A network and the sequence that it is applied to.

    Shifting a tile by its own length has to shift what it needs by whole positions: the tile length is a multiple of
    every stride on the way.
    """

    @property
    def inputs(self) -> int:
        """Length of the sequence that goes in."""

    @property
    def outputs(self) -> int:
        """Length of the sequence that comes out."""

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on; they may reach beyond the ends."""

    def build(self, graph: Graph, given: Span) -> Stretch:
        """Return all outputs that inputs `given` of the sequence determine."""

    def arrays(self, given: Span) -> Arrays:
        """Return the values of the graph's inputs."""


class StretchNetwork(Protocol):
    """A network of layers that look both ways."""

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has."""

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [inputs, time] -> all outputs [outputs, ...] that it determines."""


@dataclass(frozen=True)
class Applied:
    """`TiledNetwork` of a network and its only input, values [time, channels]."""

    network: StretchNetwork
    values: NDArray[np.float32]

    @property
    def inputs(self) -> int:
        """Length of the sequence that goes in."""
        return len(self.values)

    @property
    def outputs(self) -> int:
        """Length of the sequence that comes out."""
        return self.network.length(len(self.values))

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on; they may reach beyond the ends."""
        return self.network.needs(wanted)

    def build(self, graph: Graph, given: Span) -> Stretch:
        """Return all outputs that inputs `given` of the sequence determine."""
        x = graph.input("x", (self.values.shape[1], given.length))
        return result(self.network.stages(Stretch(x, given.first, self.inputs)))

    def arrays(self, given: Span) -> Arrays:
        """Return the values of the graph's inputs."""
        return {"x": self.values[given.first : given.end]}


def in_tiles(engine: Engine, network: TiledNetwork, length: int) -> Iterator[NDArray[np.float32]]:
    """Yield the outputs [time, channels] of a network, `length` positions at a time.

    Each tile is computed from as much of its surroundings as it depends on, so where the cuts are makes no difference.
    All tiles away from the ends share one program, and there is never more than one: each has memory of its own.
    """
    program: Program | None = None
    program_key: tuple[int, ...] = ()
    for wanted in tiles(network.outputs, length):
        given = network.needs(wanted).within(network.inputs)
        begins, ends = given.first == 0, given.end == network.inputs
        key = (given.length, wanted.length, begins, ends, wanted.first if begins else 0)
        if program is None or key != program_key:
            program = None
            graph = engine.graph()
            program = graph.program({"tile": network.build(graph, given).part(wanted).values})
            program_key = key
        tile: NDArray[np.float32] = program(**network.arrays(given))["tile"]
        yield tile.reshape(wanted.length, -1)


def whole_in_tiles(engine: Engine, network: TiledNetwork, length: int) -> NDArray[np.float32]:
    """Return all outputs [time, channels] of a network, computed `length` positions at a time."""
    return np.concatenate(list(in_tiles(engine, network, length)))
