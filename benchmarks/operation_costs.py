"""What the operations of a program cost, added up by kind and printed as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

Timed = tuple[str, str, str, Sequence[int], float]
"""What `Program.profile` says of an operation: its kind, name, type of its first operand, shape, milliseconds."""


@dataclass(frozen=True)
class Kind:
    """Operations that are alike: their name, the type of their first operand and the shape of their result."""

    operation: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """What all operations of a kind take in one run."""

    kind: Kind
    count: int
    milliseconds: float


def costs_of(runs: Sequence[Iterable[Timed]]) -> list[Cost]:
    """Return the cost of every kind of operation in runs of the same work, medians of the runs, the highest first."""
    times: dict[Kind, list[float]] = defaultdict(list)
    counts: dict[Kind, int] = {}
    for run in runs:
        sums: dict[Kind, list[float]] = defaultdict(list)
        for operation, name, dtype, shape, milliseconds in run:
            sums[Kind(_called(operation, name), dtype, tuple(shape))].append(milliseconds)
        for kind, values in sums.items():
            times[kind].append(sum(values))
            counts[kind] = len(values)
    costs = [Cost(kind, counts[kind], median(values)) for kind, values in times.items()]
    return sorted(costs, key=lambda cost: -cost.milliseconds)


def _called(operation: str, name: str) -> str:
    """All operations that are not GGML's own are CUSTOM to it; those that have a name are called by it."""
    return name if operation == "CUSTOM" and not name.startswith("node_") else operation


def by_operation(costs: Iterable[Cost]) -> list[Cost]:
    """Add up the costs of operations that differ in their shapes only."""
    groups: dict[Kind, list[Cost]] = defaultdict(list)
    for cost in costs:
        groups[Kind(cost.kind.operation, cost.kind.dtype, ())].append(cost)
    merged = [
        Cost(kind, sum(cost.count for cost in group), sum(cost.milliseconds for cost in group))
        for kind, group in groups.items()
    ]
    return sorted(merged, key=lambda cost: -cost.milliseconds)


def table(costs: Sequence[Cost], top: int) -> str:
    """Return a Markdown table of the highest costs and their sum."""
    total = sum(cost.milliseconds for cost in costs)
    lines = ["| operation | operand | result | count | ms | share |", "|---|---|---|---|---|---|"]
    for cost in costs[:top]:
        shape = "x".join(map(str, cost.kind.shape)) if prod(cost.kind.shape) > 1 else ""
        share = 100 * cost.milliseconds / total
        lines.append(
            f"| {cost.kind.operation} | {cost.kind.dtype} | {shape} | {cost.count}"
            f" | {cost.milliseconds:.2f} | {share:.1f} % |"
        )
    return "\n".join([*lines, f"| all | | | {sum(cost.count for cost in costs)} | {total:.2f} | |"])
