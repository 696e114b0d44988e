"""Keys and values of the last positions of endless streams, side by side, in memory that does not grow.

Where attention reads a mask, the places of a stream are a ring, and the mask says what lies where. The fused operation
of the CPU reads places in the order of time: there the window is moved to the front whenever the places run out.
Flash attention reads the rings of all streams where they lie, of those that take no part, too: cheaper than a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..engine import Engine, Graph, Tensor
from .attention import FLASH_HEAD_SIZES, needs_mask
from .config import TransformerConfig

_RING_STRIDE = 32
"""Matrix kernels of GPUs want a multiple of this many keys."""


@dataclass(frozen=True)
class WindowView:
    """Some lanes of a cache as one graph sees them, each with as many new tokens as the others, lane by lane.

    Attributes:
        cache: whose view it is.
        graph: who reads it.
        lanes: how many lanes.
        positions: i32 [lanes * tokens], positions of the new tokens in their sequences.
        rows: i32 [lanes * tokens], where they are stored, counted over the places of all lanes.
        chosen: i32 [lanes], which lanes they are; None for the first ones.
        places: i32 [lanes * tokens], where they are stored in their lanes, for the fused operation; else None.
        mask: f16 [places, tokens, 1, lanes], 0 where a key is seen and -inf elsewhere; None for the fused operation.
        asking: i32 [lanes of the cache], for flash attention of chosen lanes: which of them each lane of the cache is,
            anyone for those that are none. The mask has all lanes then.
    """

    cache: WindowCache
    graph: Graph
    lanes: int
    positions: Tensor
    rows: Tensor
    chosen: Tensor | None
    places: Tensor | None
    mask: Tensor | None
    asking: Tensor | None = None

    @property
    def sight(self) -> WindowView:
        """What the new tokens see: each the window before it."""
        return self

    def layer(self, index: int) -> WindowLayer:
        """Return the memory of one layer."""
        keys, values = (self.graph.use(self.cache.kept(part, index)) for part in ("keys", "values"))
        return WindowLayer(self, keys, values)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, config: TransformerConfig) -> Tensor:
        """Attention of queries [head_dim, heads, lanes * tokens] to what `WindowLayer.append` returned."""
        scale = 1 / math.sqrt(config.head_dim)
        by_head = keys.permute(0, 2, 1, 3)
        if self.places is not None:
            values = values.permute(0, 2, 1, 3)
            window, slots = config.window, self.chosen
            return query.attention(by_head, values, self.places, scale, window=window, slots=slots)
        if self.cache.flash:
            return self._flash(query, by_head, values.permute(0, 2, 1, 3), scale)
        head_dim, kv_heads, places, lanes = values.shape
        tokens = query.shape[2] // lanes
        queries = query.reshape(head_dim, config.heads, tokens, lanes).permute(0, 2, 1, 3)
        weights = (by_head @ queries).softmax(scale, self.mask)
        # Transposed as one matrix for each lane, which GPUs do in tiles.
        turned = values.reshape(head_dim * kv_heads, places, lanes).transpose().contiguous()
        mixed = turned.reshape(places, head_dim, kv_heads, lanes) @ weights
        return mixed.permute(0, 2, 1, 3).reshape(head_dim * config.heads, tokens * lanes)

    def _flash(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Flash attention of the first lanes, or of chosen ones among all."""
        if self.asking is None or self.chosen is None:
            return query.flash_attention(keys, values, self.mask, scale)
        head_dim, heads, total = query.shape[:3]
        width, tokens = head_dim * heads, total // self.lanes
        asked = query.reshape(width * tokens, self.lanes).get_rows(self.asking)
        queries = asked.reshape(head_dim, heads, tokens * self.cache.lanes)
        found = queries.flash_attention(keys, values, self.mask, scale)
        return found.reshape(width * tokens, self.cache.lanes).get_rows(self.chosen).reshape(width, total)


@dataclass(frozen=True)
class WindowLayer:
    """The memory of one layer inside one graph: keys and values [head_dim, kv_heads, places, lanes]."""

    sight: WindowView
    keys: Tensor
    values: Tensor

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys, values [head_dim, lanes * tokens, kv_heads] of the new tokens.

        Returns all that is kept, [head_dim, kv_heads, places, lanes]: of the lanes of the view where attention reads a
        mask or they are the first ones, else of all for the fused operation and flash attention.
        """
        return self._store(self.keys, keys), self._store(self.values, values)

    def _store(self, kept: Tensor, new: Tensor) -> Tensor:
        head_dim, heads, places, lanes = kept.shape
        rows = new.permute(0, 2, 1).reshape(head_dim * heads, new.shape[1])
        stored = kept.reshape(head_dim * heads, places * lanes).set_rows(rows, self.sight.rows)
        if self.sight.chosen is None:
            return stored.reshape(head_dim, heads, places, lanes).slice(3, 0, self.sight.lanes)
        if self.sight.mask is None or self.sight.cache.flash:
            return stored.reshape(head_dim, heads, places, lanes)
        chosen = stored.reshape(head_dim * heads * places, lanes).get_rows(self.sight.chosen)
        return chosen.reshape(head_dim, heads, places, self.sight.lanes)


class WindowCache:
    """The keys and values of the window of one or more streams, for all layers of a transformer.

        program = build(cache.view(graph, count, tokens, chosen))
        program(x=x, **cache.feed(lanes, tokens, chosen=...))
        cache.advance(lanes, tokens)

    Attributes:
        lengths: positions seen, by lane.
        lanes: how many streams there is room for.
        flash: whether flash attention reads it, and it is float16.
    """

    def __init__(self, engine: Engine, config: TransformerConfig, longest: int, lanes: int = 1) -> None:
        """Allocate an empty cache.

        Args:
            engine: device that holds it.
            config: sizes of the transformer, which has a window.
            longest: most tokens that a run adds to a lane.
            lanes: how many streams.

        Raises:
            EngineError: the device has not enough memory.
        """
        if config.window < 1:
            raise ValueError("only a transformer with a window forgets")
        self._config, self._kept_back = config, config.window - 1
        self._masked = needs_mask(config, engine.is_cpu)
        plain = config.arithmetic.plain_attention or config.head_dim not in FLASH_HEAD_SIZES
        self.flash = self._masked and not plain
        if self._masked:
            self._places = -(-(self._kept_back + longest) // _RING_STRIDE) * _RING_STRIDE
        else:
            self._places = 2 * self._kept_back + 4 * longest
        self._engine, self.lanes = engine, lanes
        self.lengths, self._firsts = [0] * lanes, [0] * lanes
        self._masks: dict[int, np.ndarray] = {}  # by tokens: of the first two rounds, by the last position
        shape = (config.head_dim, config.kv_heads, self._places, lanes)
        dtype = "f16" if self.flash else "f32"
        self._state = engine.state({name: (shape, dtype) for name in self._names()})

    def kept(self, part: str, layer: int) -> Tensor:
        """Return the "keys" or "values" of one layer, [head_dim, kv_heads, places, lanes]."""
        return self._state[f"{part}.{layer}"]

    def view(self, graph: Graph, count: int, tokens: int, chosen: Tensor | None) -> WindowView:
        """Return `count` lanes inside `graph`, which gains the inputs of `feed`: `chosen` ones, i32 [count], or
        the first ones."""
        total = count * tokens
        places = mask = asking = None
        if self._masked:
            of_all = self.flash and chosen is not None
            mask = graph.input("mask", (self._places, tokens, 1, self.lanes if of_all else count), "f16")
            asking = graph.input("asking", (self.lanes,), "i32") if of_all else None
        else:
            places = graph.input("places", (total,), "i32")
        positions, rows = (graph.input(name, (total,), "i32") for name in ("positions", "rows"))
        return WindowView(self, graph, count, positions, rows, chosen, places, mask, asking)

    def feed(self, lanes: Sequence[int], tokens: int, *, chosen: bool) -> dict[str, np.ndarray]:
        """Return the inputs of a program that adds the next `tokens` positions to each of some lanes.

        `chosen` says whether the view is of chosen ones.
        """
        numbers = np.array(lanes, np.int32)
        positions = np.array(self.lengths, np.int32)[numbers, None] + np.arange(tokens, dtype=np.int32)
        if self._masked:
            places = positions % np.int32(self._places)
        else:
            for lane in lanes:
                self._slide(lane, tokens)
            places = positions - np.array(self._firsts, np.int32)[numbers, None]
        rows = places + numbers[:, None] * np.int32(self._places)
        inputs = {"positions": positions.reshape(-1), "rows": rows.reshape(-1)}
        if self._masked:
            inputs["mask"] = mask = self._mask(positions)
            if self.flash and chosen:
                inputs["asking"] = asking = np.zeros(self.lanes, np.int32)
                asking[numbers] = np.arange(len(lanes), dtype=np.int32)
                inputs["mask"] = mask[asking]
        else:
            inputs["places"] = places.reshape(-1)
        return inputs

    def advance(self, lanes: Sequence[int], tokens: int) -> None:
        """Count the positions that a program has added."""
        for lane in lanes:
            self.lengths[lane] += tokens

    def reset(self, lane: int) -> None:
        """Forget the positions of a lane."""
        self.lengths[lane] = self._firsts[lane] = 0

    def copy_lane(self, graph: Graph, lane: int, source: WindowCache, source_lane: int) -> None:
        """Have a graph copy a lane of another cache of the same kind."""
        self.lengths[lane], self._firsts[lane] = source.lengths[source_lane], source._firsts[source_lane]
        for name in self._names():
            there = graph.use(source._state[name]).slice(3, source_lane, 1)
            graph.effect(there.copy_to(graph.use(self._state[name]).slice(3, lane, 1)))

    def _names(self) -> list[str]:
        return [f"{part}.{layer}" for layer in range(self._config.layers) for part in ("keys", "values")]

    def _mask(self, positions: np.ndarray) -> np.ndarray:
        """Return the mask, float16 [lanes, 1, tokens, places], of new tokens at positions [lanes, tokens].

        From the second round of the ring on, it is that of the same place in the second round.
        """
        tokens, last = positions.shape[1], positions[:, -1]
        masks = self._masks.get(tokens)
        if masks is None:
            ends = np.arange(2 * self._places, dtype=np.int32)[:, None]
            masks = self._masks[tokens] = self._mask_values(ends + np.arange(1 - tokens, 1, dtype=np.int32))
        rounds = np.maximum(last // np.int32(self._places) - 1, 0)
        mask: np.ndarray = masks[last - rounds * np.int32(self._places)]
        return mask

    def _mask_values(self, positions: np.ndarray) -> np.ndarray:
        """Return the mask of new tokens at positions [any, tokens]."""
        last = positions[:, -1:]
        # After the run, the ring holds at each place the last position that belongs there.
        held = last - (last - np.arange(self._places, dtype=np.int32)) % np.int32(self._places)
        distance = positions[:, :, None] - held[:, None, :]
        seen = (distance >= 0) & (distance < self._config.window) & (held >= 0)[:, None, :]
        mask: np.ndarray = np.where(seen, np.float16(0), np.float16(-np.inf))
        return mask[:, None]

    def _slide(self, lane: int, tokens: int) -> None:
        """Move the window of a lane to the front if the new tokens would not fit behind it."""
        used = self.lengths[lane] - self._firsts[lane]
        if used + tokens <= self._places:
            return
        kept = min(self._kept_back, used)
        graph = self._engine.graph()
        for name in self._names():
            own = graph.use(self._state[name]).slice(3, lane, 1)
            graph.effect(own.slice(2, used - kept, kept).copy_to(own.slice(2, 0, kept)))
        graph.program({})()
        self._firsts[lane] = self.lengths[lane] - kept
