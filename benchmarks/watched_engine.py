"""An engine whose programs tell what each of their operations took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from operation_costs import Timed

from ggtts.core.engine import Engine, Graph, Program, Tensor


class WatchedEngine(Engine):
    """Runs programs operation by operation while it watches.

    A watched program runs once more to give its results, so that what it keeps from run to run is kept twice: the
    results of watched work are not those of the model, its times are.
    """

    def __init__(self, device: str | None, threads: int | None) -> None:
        super().__init__(device, threads)
        self._watched: list[Timed] | None = None

    @contextmanager
    def watch(self) -> Iterator[list[Timed]]:
        """Give a list to which every operation is added that runs inside the block."""
        self._watched = []
        try:
            yield self._watched
        finally:
            self._watched = None

    def graph(self, *arguments: Any, **options: Any) -> Graph:
        """An empty graph, whose program can be watched."""
        return _WatchedGraph(self, super().graph(*arguments, **options))

    def run(self, program: Program, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run a program, and note its operations while watching."""
        if self._watched is not None:
            self._watched.extend(program.profile(**inputs))
        return program(**inputs)


class _WatchedGraph(Graph):
    def __init__(self, engine: WatchedEngine, graph: Graph) -> None:
        self.engine = engine
        self._graph = graph._graph

    def program(self, outputs: Mapping[str, Tensor]) -> Any:
        return _WatchedProgram(self.engine, super().program(outputs))


class _WatchedProgram:
    def __init__(self, engine: Any, program: Program) -> None:
        self._engine, self._program = engine, program

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        return self._engine.run(self._program, inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)
