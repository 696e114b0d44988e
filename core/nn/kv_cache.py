"""Keys and values of earlier positions, kept on the device between the runs of a program.

Head-major, [head_dim, positions, kv_heads] per layer, so that the keys of one head lie side by side: the fused
attention then reads them 3-5 times faster than position-major ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engine import Engine, Graph, State, Tensor
from .attention import KEYS_STRIDE, Sight, mask_values, needs_mask
from .config import TransformerConfig
from .prompt_slots import PromptSlotsView, slot_rows


@dataclass(frozen=True)
class LayerCache:
    """The cache of one layer inside one graph."""

    keys: Tensor
    values: Tensor
    sight: Sight
    visible: int
    """How many places attention reads."""

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys, values [head_dim, tokens, kv_heads] and return the visible ones [head_dim, visible, kv_heads].

        Reading goes through the result of the write, which is what puts the write first.
        """
        return self._store(self.keys, keys), self._store(self.values, values)

    def _store(self, kept: Tensor, new: Tensor) -> Tensor:
        return kept.set_rows(new, self.sight.places).slice(1, 0, self.visible)


class CacheView:
    """A cache as one graph sees it: where the new tokens go, and what they may look at.

    Attributes:
        positions: i32 [tokens], positions of the new tokens in the sequence, for the rotation of queries and keys.
    """

    def __init__(self, state: State, positions: Tensor, sight: Sight, visible: int) -> None:
        self.positions = positions
        self._state, self._sight, self._visible = state, sight, visible

    def layer(self, index: int) -> LayerCache:
        """Return the memory of one layer."""
        keys, values = self._state[f"keys.{index}"], self._state[f"values.{index}"]
        return LayerCache(keys, values, self._sight, self._visible)


class KVCache:
    """The keys and values of one sequence, for all layers of a transformer.

    A program is built with `view` and run with the inputs of `feed`:

        cache.reserve(tokens)
        program = programs.get(cache.signature(tokens)) or build(cache.view(graph, tokens))
        program(x=x, **cache.feed(tokens))
        cache.advance(tokens)

    Attributes:
        length: positions held.
        limit: most positions it may ever hold, None for any number.
    """

    def __init__(
        self,
        engine: Engine,
        config: TransformerConfig,
        positions: int,
        dtype: str = "f16",
        *,
        limit: int | None = None,
    ) -> None:
        """Allocate an empty cache.

        Args:
            engine: device that holds it.
            config: sizes of the transformer.
            positions: room at first; more is made when `reserve` asks for it, contents preserved.
            dtype: "f16" or "f32".
            limit: most positions it may ever hold.

        Raises:
            EngineError: the device has not enough memory.
        """
        self.length = 0
        self.limit = limit
        self._engine, self._config, self._dtype = engine, config, dtype
        self._masked = needs_mask(config, engine.is_cpu)
        self._revision = 0
        self._capacity = self._rounded(positions)
        self._state = self._allocate(self._capacity)

    @property
    def capacity(self) -> int:
        """Positions it can hold before it has to move."""
        return self._capacity

    @property
    def state(self) -> State:
        """Keys and values themselves, until there has to be more room for them."""
        return self._state

    @property
    def revision(self) -> int:
        """Changes when memory moves; programs of an earlier one work on what is no longer read."""
        return self._revision

    @property
    def room(self) -> int | None:
        """How many more positions may ever be added, None for any number."""
        return None if self.limit is None else self.limit - self.length

    def reserve(self, tokens: int) -> None:
        """Make room for that many more positions.

        Raises:
            ValueError: that would exceed the limit.
            EngineError: the device has not enough memory.
        """
        if self.room is not None and tokens > self.room:
            raise ValueError(f"{self.length} + {tokens} positions exceed the limit of {self.limit}")
        if self.length + tokens > self._capacity:
            self._grow(self.length + tokens)

    def signature(self, tokens: int) -> tuple[int, int]:
        """Return what a program of `tokens` new positions depends on: it can be replayed while this stays the same."""
        return self._revision, self._visible(tokens)

    def view(self, graph: Graph, tokens: int) -> CacheView:
        """Return the cache inside `graph`, which gains the inputs that `feed` fills."""
        positions = graph.input("positions", (tokens,), "i32")
        visible = self._visible(tokens)
        mask = graph.input("mask", (visible, tokens), "f16") if self._masked else None
        return CacheView(self._state, positions, Sight(positions, mask), visible)

    def fixed_view(self, graph: Graph, tokens: int, start: int) -> CacheView:
        """Return a view for tokens that always stand at positions start, start + 1, ...: it needs no `feed`."""
        visible = self._visible_among(start + tokens)
        places = np.arange(start, start + tokens, dtype=np.int32)
        constants = self._engine.state({"places": ((tokens,), "i32")})
        constants.write("places", places)
        mask = None
        if self._masked:
            mask = graph.kept_mask(mask_values(places, visible, self._config.window))
        return CacheView(self._state, constants["places"], Sight(constants["places"], mask), visible)

    def prompt_view(self, graph: Graph, positions: int) -> PromptSlotsView:
        """Return the cache inside `graph`, to begin its sequence with so many positions.

        They see nothing but themselves. The graph gains the input "rows", which `prompt_rows` fills.
        """
        return PromptSlotsView(self._engine, graph, self._state, self._config, 1, positions)

    def prompt_rows(self, positions: int) -> dict[str, np.ndarray]:
        """Return the input of a program that begins the sequence with `positions`."""
        return {"rows": slot_rows([0], positions, self._capacity, self._config.kv_heads).reshape(-1)}

    def feed(self, tokens: int) -> dict[str, np.ndarray]:
        """Return the inputs of a program that adds the next `tokens` positions."""
        positions = np.arange(self.length, self.length + tokens, dtype=np.int32)
        inputs = {"positions": positions}
        if self._masked:
            inputs["mask"] = mask_values(positions, self._visible(tokens), self._config.window)
        return inputs

    def advance(self, tokens: int) -> None:
        """Count the positions that a program has added."""
        self.length += tokens

    def reset(self) -> None:
        """Forget all positions. Memory and programs stay."""
        self.length = 0

    def _rounded(self, positions: int) -> int:
        return positions if not self._masked else -(-positions // KEYS_STRIDE) * KEYS_STRIDE

    def _visible(self, tokens: int) -> int:
        return self._visible_among(self.length + tokens)

    def _visible_among(self, places: int) -> int:
        """Return how many places attention reads when that many are in use."""
        return min(self._capacity, self._rounded(places)) if self._masked else self._capacity

    def _allocate(self, capacity: int) -> State:
        shape = (self._config.head_dim, capacity, self._config.kv_heads)
        names = (f"{part}.{layer}" for layer in range(self._config.layers) for part in ("keys", "values"))
        return self._engine.state({name: (shape, self._dtype) for name in names})

    def _grow(self, needed: int) -> None:
        capacity = max(needed, self._capacity + self._capacity // 2)
        if self.limit is not None:
            capacity = min(capacity, self.limit)
        capacity = self._rounded(capacity)
        grown = self._allocate(capacity)
        self._copy(self._state, grown, self.length)
        self._state, self._capacity = grown, capacity
        self._revision += 1

    def _copy(self, source: State, target: State, count: int) -> None:
        """Copy the first positions of every layer."""
        if count == 0:
            return
        graph = self._engine.graph()
        for layer in range(self._config.layers):
            for name in (f"keys.{layer}", f"values.{layer}"):
                kept = graph.use(source[name]).slice(1, 0, count)
                graph.effect(kept.copy_to(graph.use(target[name]).slice(1, 0, count)))
        graph.program({})()
