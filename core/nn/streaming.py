"""What causal layers remember between two pieces of a stream.

A layer takes its memory as an argument. `None` means that the whole sequence is at hand and everything before it is
zero; a `Memory` holds the last inputs seen so far and is renewed each time a program runs. So one definition of a
layer serves a whole sequence, a stream, several streams side by side, and everything between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..engine import Engine, Graph, State, Tensor
from .activations import Activation, Identity

Shape = tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """The last inputs of one layer, activated, [channels, length, lanes] float32, as one graph sees them.

    Attributes:
        chosen: i32 [n], the lanes that the sequences of a run belong to; None where they are all in their order.
    """

    graph: Graph
    tensor: Tensor
    chosen: Tensor | None = None

    def before(self, x: Tensor, activation: Activation, after: int) -> Tensor:
        """x [channels, time, n], active, behind what is remembered and before zeros.

        Returns [channels, length + time + after, n].

        Its end is remembered next. That is cut from the result rather than from x, which also puts the write behind
        the only read, so that it may come early.
        """
        extended = activation(x, after=after, context=self._context())
        self.graph.effect(self._remembering(extended), early=True)
        return extended

    def _context(self) -> Tensor:
        if self.chosen is None:
            return self.tensor
        channels, length = self.tensor.shape[:2]
        lanes = _by_lane(self.tensor).get_rows(self.chosen)
        return lanes.reshape(channels, length, self.chosen.shape[0])

    def _remembering(self, extended: Tensor) -> Tensor:
        """Return the write of the end of [channels, length + ..., n]."""
        channels, length = self.tensor.shape[:2]
        extent, count = extended.shape[1:3]
        if self.chosen is None:
            return extended.slice(1, extent - length, length).copy_to(self.tensor)
        lines = extended.reshape(channels * extent, count)
        end = lines.slice(0, channels * (extent - length), channels * length)
        return _by_lane(self.tensor).set_rows(end, self.chosen)


Allocate = Callable[[Shape], Memory]
"""How a layer asks for memory: from the shape [channels, length] of one lane."""

Memories = TypeVar("Memories")


class StreamState(Generic[Memories]):
    """The device memory of one or more streams, all zero at first, which is the silence before a sequence begins.

    `describe` is the model's own account of its memory: it is called with an `Allocate` and returns a typed object,
    a dataclass of memories nested as the model is.
    """

    def __init__(
        self,
        engine: Engine,
        describe: Callable[[Allocate], Memories],
        lanes: int = 1,
        dtype: str = "f32",
    ) -> None:
        shapes: list[Shape] = []

        def note(shape: Shape) -> Memory:
            shapes.append(shape)
            return None  # type: ignore[return-value]  # nobody reads what this first pass returns

        describe(note)
        self._describe = describe
        layout = {str(index): ((*shape, lanes), dtype) for index, shape in enumerate(shapes)}
        self._state = engine.state(layout)

    def view(self, graph: Graph, count: int = 1, chosen: Tensor | None = None) -> Memories:
        """Return the memory of `count` lanes as a program of this graph will read and renew it.

        They are the first ones, or those whose numbers the program is given, i32 [count].
        """
        names = iter(range(len(self._state.names)))

        def layer(shape: Shape) -> Memory:
            tensor = graph.use(self._state[str(next(names))])
            return Memory(graph, tensor if chosen is not None else tensor.slice(2, 0, count), chosen)

        return self._describe(layer)

    @property
    def tensors(self) -> State:
        """Where it lies: "0", "1", ... [channels, length, lanes], in the order in which layers asked for it."""
        return self._state

    def zero(self) -> None:
        """Forget everything: the next piece begins a new sequence."""
        self._state.zero()

    def overwrite(self, graph: Graph, chosen: Tensor, source: StreamState[Memories]) -> None:
        """Have a graph copy what the only lane of another state remembers to all of `chosen`, i32 [n]."""
        for name in self._state.names:
            kept, one = (_by_lane(graph.use(state[name])) for state in (self._state, source._state))
            same = one.cast("f32").repeat(one.shape[0], chosen.shape[0])  # only float32 is written by rows
            graph.effect(kept.set_rows(same, chosen))

    def copy_lane(self, graph: Graph, lane: int, source: StreamState[Memories], source_lane: int) -> None:
        """Have a graph copy what a lane of another state of the same model remembers."""
        for name in self._state.names:
            there = graph.use(source._state[name]).slice(2, source_lane, 1)
            graph.effect(there.copy_to(graph.use(self._state[name]).slice(2, lane, 1)))


def _by_lane(memory: Tensor) -> Tensor:
    """[channels, length, lanes] -> the memory of each lane as one row, [channels * length, lanes]."""
    channels, length, lanes, _ = memory.shape
    return memory.reshape(channels * length, lanes)


def with_left_context(
    x: Tensor, length: int, memory: Memory | None, activation: Activation, after: int = 0
) -> Tensor:
    """x [channels, time, lanes], active, behind the `length` inputs before it.

    Returns [channels, length + time + after, lanes]. Without memory they are zeros, and those `after` always are.
    """
    if memory is not None:
        return memory.before(x, activation, after)
    if length == after == 0 and isinstance(activation, Identity):
        return x
    return activation(x, before=length, after=after)
