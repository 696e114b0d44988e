"""The beginnings of several sequences in one run, each in a slot that is chosen when the run begins.

A prompt sees nothing but itself, so attention reads the keys and values of the run, and the cache is only written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..engine import Engine, Graph, State, Tensor
from .attention import FLASH_HEAD_SIZES, mask_values, plain_attention
from .config import TransformerConfig


@dataclass(frozen=True)
class PromptSight:
    """Every query sees the positions of its own prompt up to its own one.

    Attributes:
        mask: f16 [positions, positions, 1, prompts], the same for all prompts.
    """

    mask: Tensor

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, config: TransformerConfig) -> Tensor:
        """query [head_dim, heads, prompts * positions], keys and values [head_dim, positions, kv_heads, prompts].

        Returns [head_dim * heads, prompts * positions].
        """
        scale = 1 / math.sqrt(config.head_dim)
        flash = keys.dtype == "f16" and config.head_dim in FLASH_HEAD_SIZES
        if flash and not config.arithmetic.plain_attention:
            return query.flash_attention(keys, values, self.mask, scale)
        return plain_attention(query, keys, values, self.mask, scale)


@dataclass(frozen=True)
class PromptLayer:
    """One layer of the cache inside one graph, to be written to."""

    graph: Graph
    keys: Tensor
    values: Tensor
    rows: Tensor
    sight: PromptSight
    prompts: int

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys, values [head_dim, prompts * positions, kv_heads], prompt by prompt, in their slots.

        Returns them as [head_dim, positions, kv_heads, prompts], in the type of the cache.
        """
        return self._store(self.keys, keys), self._store(self.values, values)

    def _store(self, kept: Tensor, new: Tensor) -> Tensor:
        by_position = new.permute(0, 2, 1, 3)  # as it was computed: heads side by side
        head_dim, kv_heads, columns, _ = by_position.shape
        if kept.dtype == "f16":
            read = by_position.cast("f16")
        else:
            read = by_position = by_position.contiguous()
        written = kept.reshape(head_dim, math.prod(kept.shape[1:]))
        rows = by_position.reshape(head_dim, kv_heads * columns)
        self.graph.effect(written.set_rows(rows, self.rows), early=True)
        return read.reshape(head_dim, kv_heads, columns // self.prompts, self.prompts).permute(0, 2, 1, 3)


class PromptSlotsView:
    """Slots of a cache as a graph sees them that begins sequences in them.

    Attributes:
        positions: i32 [prompts * positions], 0, 1, 2, ... for each prompt.
    """

    def __init__(
        self,
        engine: Engine,
        graph: Graph,
        state: State,
        config: TransformerConfig,
        prompts: int,
        positions: int,
    ) -> None:
        """The graph gains the input "rows", which `prompt_rows` fills."""
        places = np.arange(positions, dtype=np.int32)
        constants = engine.state({"places": ((prompts * positions,), "i32")})
        constants.write("places", np.tile(places, prompts))
        mask = mask_values(places, positions, config.window)
        self.positions = graph.use(constants["places"])
        self._graph, self._state, self._prompts = graph, state, prompts
        self._sight = PromptSight(graph.kept_mask(np.broadcast_to(mask, (prompts, *mask.shape))))
        self._rows = graph.input("rows", (prompts * positions * config.kv_heads,), "i32")

    def layer(self, index: int) -> PromptLayer:
        """Return the memory of one layer."""
        keys, values = (self._graph.use(self._state[f"{part}.{index}"]) for part in ("keys", "values"))
        return PromptLayer(self._graph, keys, values, self._rows, self._sight, self._prompts)


def slot_rows(slots: Sequence[int] | np.ndarray, positions: int, capacity: int, kv_heads: int) -> np.ndarray:
    """Return where the first positions of slots stand in a cache whose rows are counted through, int32 [slots,
    positions, kv_heads]."""
    slot = np.asarray(slots, np.int32)[:, None, None]
    head = np.arange(kv_heads, dtype=np.int32)
    rows: np.ndarray = (slot * kv_heads + head) * capacity + np.arange(positions, dtype=np.int32)[:, None]
    return rows
