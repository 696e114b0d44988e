"""Programs: graphs that are allocated once and run many times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggtts import _native

from .failures import native_failures


class Program:
    """What `Graph.program` returns. Any number of threads may run it; its device takes one run at a time."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Program) -> None:
        """See `Graph.program`."""
        self._native = native

    def __call__(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run it once: one array for each input of the graph, by name; one for each output.

        Shapes are those of the tensors reversed, without leading ones.

        Raises:
            TypeError, ValueError: an input is missing, or of another type or shape.
            IndexError: ids lie beyond their table.
            EngineError: the device failed or ran out of memory.
        """
        with native_failures():
            outputs: dict[str, NDArray[Any]] = self._native(**inputs)
        return outputs

    def profile(self, **inputs: NDArray[np.generic]) -> list[Any]:
        """Run it once, node by node: (operation, name, operand type, shape, milliseconds) of each. Raises as a call."""
        with native_failures():
            return self._native.profile(**inputs)

    @property
    def nodes(self) -> int:
        """How many nodes the graph has, views included."""
        return self._native.nodes

    @property
    def operations(self) -> int:
        """How many of them cost a device something."""
        return self._native.operations

    @property
    def buffer_bytes(self) -> int:
        """Memory of its intermediate results, which it shares with the other programs of its engine."""
        return self._native.buffer_bytes
