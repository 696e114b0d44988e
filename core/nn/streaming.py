"""What causal layers remember between two pieces of a stream.

A layer takes its memory as an argument. `None` means that the whole sequence is at hand and everything before it is
zero; a `Memory` holds the last inputs seen so far and is renewed each time a program runs. So one definition of a
layer serves a whole sequence, a stream, and everything between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..engine import Engine, Graph, Tensor
from .activations import Activation, Identity

Shape = tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """The last inputs of one layer, activated, [channels, length] float32, as one graph sees them."""

    graph: Graph
    tensor: Tensor

    def before(self, x: Tensor, activation: Activation, after: int) -> Tensor:
        """x [channels, time], active, behind what is remembered and before zeros, [channels, length + time + after].

        Its end is remembered next. That is cut from the result rather than from x, which also puts the write behind
        the only read, so that it may come early.
        """
        length = self.tensor.shape[1]
        extended = activation(x, after=after, context=self.tensor)
        end = extended.slice(1, extended.shape[1] - length, length)
        self.graph.effect(end.copy_to(self.tensor), early=True)
        return extended


Allocate = Callable[[Shape], Memory]
"""How a layer asks for memory: from the shape [channels, length]."""

Memories = TypeVar("Memories")


class StreamState(Generic[Memories]):
    """The device memory of one stream, all zero at first, which is the silence before a sequence begins.

    `describe` is the model's own account of its memory: it is called with an `Allocate` and returns a typed object,
    a dataclass of memories nested as the model is.
    """

    def __init__(self, engine: Engine, describe: Callable[[Allocate], Memories]) -> None:
        shapes: list[Shape] = []

        def note(shape: Shape) -> Memory:
            shapes.append(shape)
            return None  # type: ignore[return-value]  # nobody reads what this first pass returns

        describe(note)
        self._describe = describe
        self._state = engine.state({str(index): (shape, "f32") for index, shape in enumerate(shapes)})

    def view(self, graph: Graph) -> Memories:
        """Return the memory as a program of this graph will read and renew it."""
        names = iter(range(len(self._state.names)))
        return self._describe(lambda shape: Memory(graph, self._state[str(next(names))]))

    def zero(self) -> None:
        """Forget everything: the next piece begins a new sequence."""
        self._state.zero()

    def copy_from(self, other: StreamState[Memories]) -> None:
        """Take over the memory of another stream of the same model."""
        self._state.copy_from(other._state)


def with_left_context(
    x: Tensor, length: int, memory: Memory | None, activation: Activation, after: int = 0
) -> Tensor:
    """x [channels, time], active, behind the `length` inputs before it: [channels, length + time + after].

    Without memory they are zeros, and those `after` always are.
    """
    if memory is not None:
        return memory.before(x, activation, after)
    if length == after == 0 and isinstance(activation, Identity):
        return x
    return activation(x, before=length, after=after)
