"""Graphs under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
        """A tensor whose values are given at every run, as the keyword argument `name` of the program."""
        return self._graph.input(name, list(shape), dtype)

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
