"""A network as a generator: it names every intermediate result on the way and returns the last one.

Running a model needs the last only (`result`); dumps and comparisons want all of them (`named`). So there is one
definition of a network, and nothing hooks into it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
from numpy.typing import NDArray

from ..engine import Graph, Tensor

Stages = Generator[tuple[str, Tensor], None, Tensor]


def result(stages: Stages) -> Tensor:
    """Return what the network computes."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            tensor: Tensor = end.value
            return tensor


def named(stages: Stages) -> dict[str, Tensor]:
    """Return every stage by its name."""
    return dict(stages)


def prefixed(prefix: str, stages: Stages) -> Stages:
    """Put a prefix before the name of every stage."""
    while True:
        try:
            name, tensor = next(stages)
        except StopIteration as end:
            last: Tensor = end.value
            return last
        yield prefix + name, tensor


def compute(
    graph: Graph, tensors: Mapping[str, Tensor], **inputs: NDArray[np.generic]
) -> dict[str, NDArray[np.float32]]:
    """Run a graph once: its tensors [width, time] as arrays [time, width], also where one of the two is 1."""
    arrays = graph.program(tensors)(**inputs)
    return {name: array.reshape(tensors[name].shape[1::-1]) for name, array in arrays.items()}
