"""Graphs under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ggtts import _native

from .failures import native_failures
from .program import Program

if TYPE_CHECKING:
    from .engine import Engine


class Graph:
    """Operations on tensors, collected to run as one program.

    Shapes are in GGML order, the fastest dimension first; the arrays of inputs and outputs have them reversed.
    """

    def __init__(self, engine: Engine, max_operations: int) -> None:
        self.engine = engine
        self._graph = _native.Graph(engine.backend, max_operations)

    def input(self, name: str, shape: Sequence[int], dtype: str = "f32") -> _native.Tensor:
        """A tensor whose values are given at every run, as the keyword argument `name` of the program.

        One of float16 takes memory for 63 more rows, as it may be a mask (`kept_mask`).
        """
        return self._graph.input(name, list(shape), dtype)

    def kept_mask(self, values: NDArray[np.float16]) -> _native.Tensor:
        """A mask that is the same in every run, [keys, queries, 1, slots], and that flash attention can read.

        GGML's kernels read more rows than there are queries, as they do of an input of float16. What these hold
        changes nothing, but they have to be there.

        Args:
            values: [slots, queries, keys], or [queries, keys] where there is one slot.

        Raises:
            EngineError: the device has not enough memory.
        """
        slots, (queries, keys) = 1 if values.ndim == 2 else len(values), values.shape[-2:]
        rows = values.reshape(slots * queries, keys)
        behind = np.zeros((_native.MASK_ROWS_BEHIND, keys), np.float16)
        state = self.engine.state({"mask": ((keys, len(rows) + len(behind)), "f16")})
        state.write("mask", np.concatenate([rows, behind]))
        return self.use(state["mask"]).slice(1, 0, len(rows)).reshape(keys, queries, 1, slots)

    def use(self, leaf: _native.Tensor) -> _native.Tensor:
        """A weight or a piece of state as a member of this graph: needed where no other operand belongs to one."""
        return self._graph.use(leaf)

    def effect(self, tensor: _native.Tensor, *, early: bool = False) -> None:
        """Run `tensor` although no output reads it: a write into state. Effects run after all outputs.

        An `early` one runs as soon as it can, and what it reads need not be kept until the end. That is for writes that
        themselves depend on everything that reads what they overwrite.
        """
        self._graph.effect(tensor, early)

    def program(self, outputs: Mapping[str, _native.Tensor]) -> Program:
        """End the graph: place pending weights, allocate, and return what replays it.

        Raises:
            EngineError: the device lacks memory, or cannot run an operation.
            ValueError: the outputs are none of this graph, or it became a program before.
        """
        with native_failures():
            return Program(self._graph.program(list(outputs.items())))
