"""A network as a generator: it names every intermediate result on the way and returns the last one.

Running a model needs the last only (`result`); dumps and comparisons want all of them (`named`). So there is one
definition of a network, and nothing hooks into it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..engine import Graph, Tensor

Value = TypeVar("Value")
StagesOf = Generator[tuple[str, Value], None, Value]
Stages = StagesOf[Tensor]


def result(stages: StagesOf[Value]) -> Value:
    """Return what the network computes."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            value: Value = end.value
            return value


def named(stages: StagesOf[Value]) -> dict[str, Value]:
    """Return every stage by its name."""
    return dict(stages)


def prefixed(prefix: str, stages: StagesOf[Value]) -> StagesOf[Value]:
    """Put a prefix before the name of every stage."""
    while True:
        try:
            name, value = next(stages)
        except StopIteration as end:
            last: Value = end.value
            return last
        yield prefix + name, value


def compute(
    graph: Graph, tensors: Mapping[str, Tensor], **inputs: NDArray[np.generic]
) -> dict[str, NDArray[np.float32]]:
    """Run a graph once: its tensors [width, time] as arrays [time, width], also where one of the two is 1."""
    arrays = graph.program(tensors)(**inputs)
    return {name: array.reshape(tensors[name].shape[1::-1]) for name, array in arrays.items()}
