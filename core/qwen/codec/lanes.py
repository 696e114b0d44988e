"""Streams of the codec decoder side by side in the memory of a device, and the programs that several of them share."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine, Graph, Program, State, Tensor
from ...nn.buckets import power_of_two
from ...nn.config import TransformerConfig
from ...nn.conv_chain import ChainMemory
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
class ConvolutionMemory:
    """What the convolutions of one or more streams remember: those that are operations, and those of a chain."""

    operations: StreamState[DecoderMemory]
    chain: StreamState[ChainMemory] | None

    @classmethod
    def allocate(cls, engine: Engine, network: DecoderNetwork, lanes: int = 1) -> ConvolutionMemory:
        """Silence before so many streams begin. Raises EngineError when the device has not enough memory."""
        operations, chain = StreamState(engine, network.memory, lanes), network.chain
        if chain is None:
            return cls(operations, None)
        return cls(operations, StreamState(engine, chain.memory, lanes, chain.dtype))

    def zero(self) -> None:
        """Forget everything."""
        self.operations.zero()
        if self.chain is not None:
            self.chain.zero()

    def overwrite(self, graph: Graph, chosen: Tensor, source: ConvolutionMemory) -> None:
        """Have a graph copy what the only stream of another one remembers to all of `chosen`, i32 [n]."""
        self.operations.overwrite(graph, chosen, source.operations)
        if self.chain is not None and source.chain is not None:
            self.chain.overwrite(graph, chosen, source.chain)

    def copy_lane(self, graph: Graph, lane: int, source: ConvolutionMemory, source_lane: int) -> None:
        """Have a graph copy what a stream of another one remembers."""
        self.operations.copy_lane(graph, lane, source.operations, source_lane)
        if self.chain is not None and source.chain is not None:
            self.chain.copy_lane(graph, lane, source.chain, source_lane)


@dataclass(frozen=True)
class DecoderSnapshot:
    """Where one or more streams stand: their convolutions' memory, and the keys and values of their windows."""

    memory: ConvolutionMemory
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


@dataclass(frozen=True)
class _Decoding:
    """The programs of one width: up to the samples, or up to what a chain reads, and where that lies.

    Attributes:
        width: what it is for.
        program: from codes to samples, or to the latents.
        latents: "x" is where the program leaves them for the chain; None without one.
    """

    width: _Width
    program: Program
    latents: State | None


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
        self._silence: ConvolutionMemory | None = None
        self._silencers: dict[int, Program] = {}  # by the number of lanes
        self._beginning: list[int] = []  # what these lanes remember is of others
        self._latents: State | None = None
        self._programs: OrderedDict[_Width, _Decoding] = OrderedDict()

    @property
    def operations(self) -> int:
        """How many operations the last run had."""
        last = next(reversed(self._programs.values()))
        return last.program.operations + (self._network.chain.layers if self._network.chain else 0)

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
        count, frames = codes.shape[:2]
        padded = self._padded(count)
        first = list(lanes) == list(range(padded))
        places = [*lanes, *[self.count] * (padded - count)]
        tokens = np.zeros((padded * frames, codes.shape[2]), np.int32)
        tokens[: count * frames] = codes.reshape(count * frames, -1)
        inputs = self._held.cache.feed(places, frames, chosen=not first)
        if not first:
            inputs["lanes"] = np.array(places, np.int32)
        inputs["codes"] = self._network.quantizer.feed(tokens)
        decoding = self._decoding(_Width(padded, frames, first))
        with self._goes_first():
            self._fall_silent()
            samples = self._decode(decoding, places, inputs)
        self._held.cache.advance(lanes, frames)
        return samples.reshape(padded, -1)[:count]

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

    def _goes_first(self) -> AbstractContextManager[None]:
        """Return what a run is to be made in, which is the first one of a stream or of some among others.

        Somebody waits for the first one in silence. Those of many streams come late when they get the gaps between
        frames only; those of one stream fit in there, and cost nothing.
        """
        return self._engine.right_of_way() if self._beginning or self.count > 1 else nullcontext()

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
            self._silence = ConvolutionMemory.allocate(self._engine, self._network)
        graph = self._engine.graph()
        self._held.memory.overwrite(graph, graph.input("lanes", (count,), "i32"), self._silence)
        return graph.program({})

    def _allocate(self, lanes: int) -> DecoderSnapshot:
        sizes = self._sizes
        return DecoderSnapshot(
            ConvolutionMemory.allocate(self._engine, self._network, lanes),
            WindowCache(self._engine, sizes.attention, sizes.widest, lanes),
        )

    def _padded(self, count: int) -> int:
        """Return how many lanes a run for that many has: few numbers, where more of them cost next to nothing."""
        return count if self._engine.is_cpu else power_of_two(count)

    def _decoding(self, width: _Width) -> _Decoding:
        decoding = self._programs.get(width)
        if decoding is None:
            decoding = self._programs[width] = self._build(width)
            if len(self._programs) > PROGRAMS_KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(width)
        return decoding

    def _build(self, width: _Width) -> _Decoding:
        graph, network = self._engine.graph(), self._network
        codes = network.quantizer.input(graph, width.lanes * width.frames)
        chosen = None if width.first else graph.input("lanes", (width.lanes,), "i32")
        view = self._held.cache.view(graph, width.lanes, width.frames, chosen)
        memory = self._held.memory.operations.view(graph, width.lanes, chosen)
        if network.chain is None:
            samples = result(network.stages(codes, view.positions, view, memory, width.lanes))
            return _Decoding(width, graph.program({"samples": samples}), None)
        x = result(network.latents(codes, view.positions, view, memory, width.lanes))
        size = math.prod(x.shape)
        latents = self._room_for(size, network.chain.dtype)
        graph.effect(x.reshape(size).copy_to(graph.use(latents["x"]).slice(0, 0, size)))
        return _Decoding(width, graph.program({}), latents)

    def _room_for(self, size: int, dtype: str) -> State:
        """Return a tensor "x" for at least so many values: the same one, as long as it is large enough."""
        if self._latents is None or self._latents["x"].shape[0] < size:
            self._latents = self._engine.state({"x": ((size,), dtype)})
        return self._latents

    def _decode(
        self, decoding: _Decoding, lanes: Sequence[int], inputs: Mapping[str, NDArray[np.generic]]
    ) -> NDArray[np.float32]:
        chain, kept = self._network.chain, self._held.memory.chain
        arrays = decoding.program(**inputs)
        if chain is None or kept is None or decoding.latents is None:
            samples: NDArray[np.float32] = arrays["samples"]
            return samples
        return chain.run(decoding.latents, decoding.width.frames * self._network.frame, kept.tensors, lanes)
