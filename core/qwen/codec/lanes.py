"""Streams of the codec decoder side by side in the memory of a device, and the programs that several of them share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine, Graph, Program
from ...nn.buckets import power_of_two
from ...nn.config import TransformerConfig
from ...nn.stages import result
from ...nn.streaming import StreamState
from ...nn.window_cache import WindowCache
from .network import DecoderMemory, DecoderNetwork

PROGRAMS_KEPT = 48
"""Programs of different widths that are kept, those used last. What they compute with they share."""


@dataclass(frozen=True)
class LaneSizes:
    """What the memory of streams depends on.

    Attributes:
        widest: most frames of one stream in a run.
        attention: the decoder's transformer.
    """

    widest: int
    attention: TransformerConfig


@dataclass(frozen=True)
class DecoderSnapshot:
    """Where one or more streams stand: their convolutions' memory, and the keys and values of their windows."""

    memory: StreamState[DecoderMemory]
    cache: WindowCache

    def copy_lane(self, graph: Graph, lane: int, source: DecoderSnapshot, source_lane: int) -> None:
        """Have a graph copy where a stream of another one stands."""
        self.memory.copy_lane(graph, lane, source.memory, source_lane)
        self.cache.copy_lane(graph, lane, source.cache, source_lane)


@dataclass(frozen=True)
class _Width:
    """What a program is for: so many lanes, the first ones or any, and so many frames of each."""

    lanes: int
    frames: int
    first: bool


class DecoderLanes:
    """Device memory for several streams, and the programs that decode as many frames of each of some.

    It knows the network and not the decoder, which keeps idle ones: both would live until the garbage collector comes.

    Attributes:
        count: how many streams there is room for.
    """

    def __init__(self, engine: Engine, network: DecoderNetwork, sizes: LaneSizes, count: int = 1) -> None:
        """Allocate `count` lanes and, beside more than one, a spare one for what nobody wants.

        Raises:
            EngineError: the device has not enough memory.
        """
        self.count = count
        self._engine, self._network, self._sizes = engine, network, sizes
        self._held = self._allocate(count + 1 if count > 1 else 1)
        self._silence: StreamState[DecoderMemory] | None = None
        self._silencers: dict[int, Program] = {}  # by the number of lanes
        self._beginning: list[int] = []  # what these lanes remember is of others
        self._programs: OrderedDict[_Width, Program] = OrderedDict()

    @property
    def operations(self) -> int:
        """How many operations the last run had."""
        return next(reversed(self._programs.values())).operations

    def begin(self, lane: int, snapshot: DecoderSnapshot | None = None) -> None:
        """Let a lane begin at silence, or where the snapshot was taken."""
        if lane in self._beginning:
            self._beginning.remove(lane)
        if snapshot is not None:
            graph = self._engine.graph()
            self._held.copy_lane(graph, lane, snapshot, 0)
            graph.program({})()
        else:
            self._held.cache.reset(lane)
            self._beginning.append(lane)

    def run(self, lanes: Sequence[int], codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples [n, frames * samples per frame] of the next codes [n, frames, codebooks] of n different lanes."""
        self._fall_silent()
        count, frames = codes.shape[:2]
        padded = self._padded(count)
        first = list(lanes) == list(range(padded))
        places = [*lanes, *[self.count] * (padded - count)]
        tokens = np.zeros((padded * frames, codes.shape[2]), np.int32)
        tokens[: count * frames] = codes.reshape(count * frames, -1)
        inputs = self._held.cache.feed(places, frames)
        if not first:
            inputs["lanes"] = np.array(places, np.int32)
        arrays = self._program(_Width(padded, frames, first))(
            codes=self._network.quantizer.feed(tokens), **inputs
        )
        self._held.cache.advance(lanes, frames)
        samples: NDArray[np.float32] = arrays["samples"].reshape(padded, -1)
        return samples[:count]

    def snapshot(self, lane: int, into: DecoderSnapshot | None = None) -> DecoderSnapshot:
        """Copy where a lane stands; an older copy is written over."""
        self._fall_silent()
        kept = into or self._allocate(1)
        graph = self._engine.graph()
        kept.copy_lane(graph, 0, self._held, lane)
        graph.program({})()
        return kept

    def take_over(self, other: DecoderLanes, lanes: Sequence[int]) -> None:
        """Go on with lanes of another one, under the same numbers."""
        other._fall_silent()
        graph = self._engine.graph(max_operations=256 * len(lanes))
        for lane in lanes:
            self._held.copy_lane(graph, lane, other._held, lane)
        graph.program({})()

    def _fall_silent(self) -> None:
        """Let the lanes that begin do so, all of them in one run."""
        beginning = self._beginning
        if beginning and self.count == 1:
            self._held.memory.zero()
        elif beginning:
            count = power_of_two(len(beginning))
            silencer = self._silencers.get(count)
            if silencer is None:
                silencer = self._silencers[count] = self._silencer(count)
            lanes = [*beginning, *[self.count] * (count - len(beginning))]
            silencer(lanes=np.array(lanes, np.int32))
        beginning.clear()

    def _silencer(self, count: int) -> Program:
        if self._silence is None:
            self._silence = StreamState(self._engine, self._network.memory)
        graph = self._engine.graph()
        self._held.memory.overwrite(graph, graph.input("lanes", (count,), "i32"), self._silence)
        return graph.program({})

    def _allocate(self, lanes: int) -> DecoderSnapshot:
        sizes = self._sizes
        return DecoderSnapshot(
            StreamState(self._engine, self._network.memory, lanes),
            WindowCache(self._engine, sizes.attention, sizes.widest, lanes),
        )

    def _padded(self, count: int) -> int:
        """Return how many lanes a run for that many has: few numbers, where more of them cost next to nothing."""
        return count if self._engine.is_cpu else power_of_two(count)

    def _program(self, width: _Width) -> Program:
        program = self._programs.get(width)
        if program is None:
            program = self._programs[width] = self._build(width)
            if len(self._programs) > PROGRAMS_KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(width)
        return program

    def _build(self, width: _Width) -> Program:
        graph = self._engine.graph()
        codes = self._network.quantizer.input(graph, width.lanes * width.frames)
        chosen = None if width.first else graph.input("lanes", (width.lanes,), "i32")
        view = self._held.cache.view(graph, width.lanes, width.frames, chosen)
        memory = self._held.memory.view(graph, width.lanes, chosen)
        samples = result(self._network.stages(codes, view.positions, view, memory, width.lanes))
        return graph.program({"samples": samples})
