"""Keys and values of several sequences side by side, so that one run of a program adds a position to each of them.

Like `KVCache`, but with a last dimension for the sequences: head-major [head_dim, positions, kv_heads, slots] per
layer. A run for n sequences works on the first n slots, so those that take part have to stand in front: `exchange`
brings them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..engine import Engine, Graph, Program, State, Tensor
from .attention import KEYS_STRIDE, Sight, mask_values, needs_mask
from .buckets import power_of_two, rounded_by_half
from .config import TransformerConfig
from .kv_cache import LayerCache
from .prompt_slots import PromptSlotsView, slot_rows


@dataclass(frozen=True)
class SlotsLayer:
    """The first slots of one layer inside one graph, each with as many new tokens as the others."""

    keys: Tensor
    values: Tensor
    sight: Sight
    ids: Tensor
    visible: int

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys, values [head_dim, slots * tokens, kv_heads], slot by slot, each where its slot goes on.

        Returns the visible ones, [head_dim, visible, kv_heads, slots].
        """
        return self._store(self.keys, keys), self._store(self.values, values)

    def _store(self, kept: Tensor, new: Tensor) -> Tensor:
        return kept.set_rows(_by_slot(new, self.ids.shape[0]), self.ids).slice(1, 0, self.visible)


class SlotsView:
    """The first slots as one graph sees them.

    Attributes:
        positions: i32 [slots * tokens], positions of the new tokens in their sequences.
    """

    def __init__(self, graph: Graph, state: State, slots: int, positions: Tensor, sight: Sight, visible: int):
        self.positions = positions
        self._graph, self._state, self._slots = graph, state, slots
        self._sight, self._visible = sight, visible

    def layer(self, index: int) -> SlotsLayer:
        """Return the memory of one layer."""
        keys, values = (
            self._graph.use(self._state[f"{part}.{index}"]).slice(3, 0, self._slots)
            for part in ("keys", "values")
        )
        tokens = self.positions.shape[0] // self._slots
        ids = self.positions.reshape(tokens, 1, self._slots)
        return SlotsLayer(keys, values, self._sight, ids, self._visible)


class OneSlotView:
    """One slot as one graph sees it: what `CacheView` is for a cache of one sequence.

    Attributes:
        positions: i32 [tokens], positions of the new tokens.
    """

    def __init__(self, graph: Graph, state: State, slot: int, sight: Sight, visible: int) -> None:
        self.positions = sight.places
        self._graph, self._state, self._slot = graph, state, slot
        self._sight, self._visible = sight, visible

    def layer(self, index: int) -> LayerCache:
        """Return the memory of one layer."""
        keys, values = (
            self._graph.use(self._state[f"{part}.{index}"]).slice(3, self._slot, 1)
            for part in ("keys", "values")
        )
        return LayerCache(keys, values, self._sight, self._visible)


class SlotCache:
    """The keys and values of up to `slots` sequences, for all layers of a transformer.

    A sequence begins in a slot of its own with `view` and `feed`; then those in the first n slots go on together,
    one position each:

        cache.reserve(slot, tokens)
        build(cache.view(graph, slot, tokens))(x=x, **cache.feed(slot, tokens))
        cache.advance(slot, tokens)
        ...
        program = programs.get(cache.signature(n)) or build(cache.step_view(graph, n))
        program(x=x, **cache.step_feed(n))

    Several sequences can begin in one run: `prompts_view`, `prompt_rows`.

    Attributes:
        lengths: positions held, by slot.
        limit: most positions a sequence may ever have, None for any number.
        revision: changes when memory moves; programs of an earlier one work on what is no longer read.
    """

    def __init__(
        self, engine: Engine, config: TransformerConfig, dtype: str = "f16", *, limit: int | None = None
    ) -> None:
        """Make a cache without any slot. `dtype` is "f16" or "f32"."""
        self.lengths: list[int] = []
        self.limit = limit
        self._engine, self._config, self._dtype = engine, config, dtype
        self._masked = needs_mask(config, engine.is_cpu)
        self._capacity = 0
        self.revision = 0
        self._state: State | None = None
        self._movers: dict[tuple[int, int], Program] = {}  # by pairs of slots and their positions

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self.lengths)

    @property
    def is_masked(self) -> bool:
        """Whether attention needs a mask, and so reads as many positions as are in use, rounded up."""
        return self._masked

    @property
    def capacity(self) -> int:
        """Positions that a slot can hold before all have to move."""
        return self._capacity

    @property
    def state(self) -> State:
        """Keys and values themselves, until there has to be more room for them.

        Raises:
            ValueError: there are no slots yet.
        """
        if self._state is None:
            raise ValueError("the cache has no slots yet")
        return self._state

    def room(self, slot: int) -> int | None:
        """Return how many more positions a slot may ever have, None for any number."""
        return None if self.limit is None else self.limit - self.lengths[slot]

    def resize(self, slots: int, positions: int) -> None:
        """Have at least that many slots and room for that many positions in each; contents stay.

        Raises:
            EngineError: the device has not enough memory.
        """
        slots, positions = max(slots, self.slots), max(self._rounded(positions), self._capacity)
        if (slots, positions) == (self.slots, self._capacity):
            return
        self._movers.clear()
        if not any(self.lengths):
            self._state, self._capacity = None, 0  # before there is more: both may not fit
        shape = (self._config.head_dim, positions, self._config.kv_heads, slots)
        grown = self._engine.state({name: (shape, self._dtype) for name in self._names()})
        if self._state is not None:
            self._copy(self._state, grown, [(slot, slot) for slot in range(self.slots)])
        self._state, self._capacity = grown, positions
        self.lengths += [0] * (slots - self.slots)
        self.revision += 1

    def bytes_for(self, slots: int, positions: int) -> int:
        """Return the memory that so many slots of so many positions take."""
        sizes, number = self._config, 2 if self._dtype == "f16" else 4
        return 2 * sizes.layers * sizes.kv_heads * sizes.head_dim * number * slots * self._rounded(positions)

    def reserve(self, slot: int, tokens: int) -> None:
        """Make room for that many more positions in a slot.

        Raises:
            ValueError: that would exceed the limit.
            EngineError: the device has not enough memory.
        """
        room = self.room(slot)
        if room is not None and tokens > room:
            raise ValueError(f"{self.lengths[slot]} + {tokens} positions exceed the limit of {self.limit}")
        needed = self.lengths[slot] + tokens
        if needed > self._capacity:
            roomy = max(needed, self._capacity + self._capacity // 2)
            self.resize(self.slots, roomy if self.limit is None else min(roomy, self.limit))

    def advance(self, slot: int, tokens: int) -> None:
        """Count the positions that a program has added to a slot."""
        self.lengths[slot] += tokens

    def reset(self, slot: int) -> None:
        """Forget the positions of a slot."""
        self.lengths[slot] = 0

    def clear(self) -> None:
        """Forget everything, and let go of the memory."""
        self._movers.clear()
        self.lengths, self._capacity, self._state = [], 0, None
        self.revision += 1

    def exchange(self, one: int, other: int) -> None:
        """Let the sequences of two slots change places."""
        self.exchange_all([(one, other)])

    def exchange_all(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Let the sequences of pairs of slots change places, no slot twice."""
        if self._engine.is_cpu:
            for one, other in pairs:
                self._exchange_alone(one, other)
            return
        moved = [pair for pair in pairs if any(self.lengths[slot] for slot in pair)]
        if moved:
            self._exchange_rows(moved)
        for one, other in pairs:
            self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def _exchange_alone(self, one: int, other: int) -> None:
        moves = [(source, target) for source, target in ((one, other), (other, one)) if self.lengths[source]]
        if len(moves) == 1:
            self._copy(self.state, self.state, moves)
        elif moves:
            aside = SlotCache(self._engine, self._config, self._dtype)
            aside.resize(1, self.lengths[one])
            self._copy(self.state, aside.state, [(one, 0)])
            self._copy(self.state, self.state, [(other, one)])
            self._copy(aside.state, self.state, [(0, other)], [self.lengths[one]])
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def _exchange_rows(self, pairs: list[tuple[int, int]]) -> None:
        """The same by a program that is kept, as one that is made anew costs more than what it does."""
        positions = self._exchanged_positions(max(self.lengths[slot] for pair in pairs for slot in pair))
        # Those who make their number a round one are the last pair again, which moves to the same place.
        count = power_of_two(len(pairs))
        sources = np.array([*pairs, *[pairs[-1]] * (count - len(pairs))])
        mover = self._movers.get((count, positions))
        if mover is None:
            mover = self._movers[count, positions] = self._mover(2 * count * positions)
        source, target = (
            slot_rows(slots.reshape(-1), positions, self._capacity, self._config.kv_heads).reshape(-1)
            for slots in (sources, sources[:, ::-1])
        )
        mover(source=source, target=target)

    def _exchanged_positions(self, length: int) -> int:
        return min(self._capacity, KEYS_STRIDE * power_of_two(-(-length // KEYS_STRIDE))) if length else 0

    def _mover(self, positions: int) -> Program:
        """Build a program that copies so many positions of all layers elsewhere, all read before one is written."""
        graph, sizes = self._engine.graph(), self._config
        count = positions * sizes.kv_heads
        source, target = graph.input("source", (count,), "i32"), graph.input("target", (count,), "i32")
        for name in self._names():
            kept = graph.use(self.state[name])
            rows = kept.reshape(sizes.head_dim, kept.shape[1] * kept.shape[2] * kept.shape[3])
            graph.effect(rows.set_rows(rows.get_rows(source), target), early=True)
        return graph.program({})

    def prompts_view(self, graph: Graph, prompts: int, positions: int) -> PromptSlotsView:
        """Return slots inside `graph`, to begin so many sequences of so many positions in any of them.

        The graph gains the input "rows", which `prompt_rows` fills.
        """
        return PromptSlotsView(self._engine, graph, self.state, self._config, prompts, positions)

    def prompt_rows(self, slots: Sequence[int], positions: int) -> dict[str, np.ndarray]:
        """Return the input of a program that begins sequences of `positions` in these slots."""
        rows = slot_rows(slots, positions, self._capacity, self._config.kv_heads)
        return {"rows": rows.reshape(-1)}

    def view(self, graph: Graph, slot: int, tokens: int) -> OneSlotView:
        """Return one slot inside `graph`, which gains the inputs that `feed` fills."""
        positions = graph.input("positions", (tokens,), "i32")
        visible = self._visible(self.lengths[slot] + tokens)
        mask = graph.input("mask", (visible, tokens), "f16") if self._masked else None
        return OneSlotView(graph, self.state, slot, Sight(positions, mask), visible)

    def feed(self, slot: int, tokens: int) -> dict[str, np.ndarray]:
        """Return the inputs of a program that adds the next `tokens` positions to one slot."""
        length = self.lengths[slot]
        return self._inputs(np.arange(length, length + tokens, dtype=np.int32)[None])

    def signature(self, slots: int) -> tuple[int, int, int]:
        """Return what a program for one more position of the first slots depends on."""
        return self.revision, slots, self._visible(max(self.lengths[:slots]) + 1)

    def step_view(self, graph: Graph, slots: int) -> SlotsView:
        """Return the first slots inside `graph`, to add one position to each; it gains the inputs of `step_feed`."""
        positions = graph.input("positions", (slots,), "i32")
        visible = self._visible(max(self.lengths[:slots]) + 1)
        mask = graph.input("mask", (visible, 1, 1, slots), "f16") if self._masked else None
        return SlotsView(graph, self.state, slots, positions, Sight(positions, mask), visible)

    def step_feed(self, slots: int) -> dict[str, np.ndarray]:
        """Return the inputs of a program that adds one position to each of the first slots."""
        return self._inputs(np.array(self.lengths[:slots], np.int32)[:, None])

    def fixed_view(self, graph: Graph, slots: int, tokens: int, start: int) -> SlotsView:
        """Return the first slots for tokens that always stand at start, start + 1, ... in each: it needs no feed."""
        places = np.tile(np.arange(start, start + tokens, dtype=np.int32), (slots, 1))
        visible = self._visible(start + tokens)
        constants = self._engine.state({"places": ((slots * tokens,), "i32")})
        constants.write("places", places.reshape(-1))
        positions = graph.use(constants["places"])
        mask = graph.kept_mask(self._mask(places, visible)[:, 0]) if self._masked else None
        return SlotsView(graph, self.state, slots, positions, Sight(positions, mask), visible)

    def _names(self) -> list[str]:
        return [f"{part}.{layer}" for layer in range(self._config.layers) for part in ("keys", "values")]

    def _inputs(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Return what programs read for new tokens at places [slots, tokens]."""
        inputs = {"positions": places.reshape(-1)}
        if self._masked:
            inputs["mask"] = self._mask(places, self._visible(int(places.max()) + 1))
        return inputs

    def _mask(self, places: np.ndarray, visible: int) -> np.ndarray:
        """Return the mask, float16 [slots, 1, tokens, keys]."""
        return mask_values(places[:, None], visible, self._config.window)

    def _rounded(self, positions: int) -> int:
        return positions if not self._masked else -(-positions // KEYS_STRIDE) * KEYS_STRIDE

    def _visible(self, places: int) -> int:
        """Return how many places attention reads when that many are in use."""
        if not self._masked:
            return self._capacity
        strides = -(-places // KEYS_STRIDE)
        if not self._engine.is_cpu:  # where each number has a program that lasts
            strides = rounded_by_half(strides)
        return min(self._capacity, KEYS_STRIDE * strides)

    def _copy(
        self,
        source: State,
        target: State,
        slots: list[tuple[int, int]],
        lengths: list[int] | None = None,
    ) -> None:
        """Copy the sequences of slots (of the source, of the target), as long as they are or as they are said to be."""
        graph = self._engine.graph(max_operations=64 + 16 * len(slots) * self._config.layers)
        known = lengths or [self.lengths[slot] for slot, _ in slots]
        for (slot, place), length in zip(slots, known, strict=True):
            if length:
                for name in self._names():
                    kept = graph.use(source[name]).slice(3, slot, 1).slice(1, 0, length)
                    there = graph.use(target[name]).slice(3, place, 1).slice(1, 0, length)
                    graph.effect(kept.copy_to(there))
        graph.program({})()


def _by_slot(new: Tensor, tokens: int) -> Tensor:
    """[head_dim, slots * tokens, kv_heads] -> [head_dim, tokens, kv_heads, slots]."""
    if tokens == 1:
        return new.permute(0, 3, 2, 1)
    by_token = new.permute(0, 2, 1, 3)  # as it was computed: heads side by side
    head_dim, kv_heads, count, _ = by_token.shape
    return by_token.contiguous().reshape(head_dim, kv_heads, tokens, count // tokens).permute(0, 2, 1, 3)
