#!/usr/bin/env python3
"""Show where the time of one step of OmniVoice goes, operation by operation.

    python benchmarks/omnivoice_profile.py BASE.gguf --prompt 50 --frames 150

Operations run one by one, so their sum is a little more than what a step takes; medians over the runs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from math import prod
from statistics import median
from time import perf_counter

import numpy as np

from ggtts.core.engine import Engine
from ggtts.core.formats.omnivoice import OmniVoiceFile
from ggtts.core.omnivoice.backbone import Backbone
from ggtts.core.omnivoice.prompt import IntArray
from ggtts.core.omnivoice.scoring import PromptedStep, Step, StepShape

GUIDANCE = 2.0


@dataclass(frozen=True)
class Kind:
    """Operations that are alike: their name, the type of their first operand and the shape of their result."""

    operation: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """What all operations of a kind take in one step."""

    kind: Kind
    count: int
    milliseconds: float


def main() -> None:
    """Parse the options, profile, print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="language model GGUF")
    parser.add_argument("--prompt", type=int, default=50, help="positions before the frames (default 50)")
    parser.add_argument("--frames", type=int, default=150, help="frames of 40 ms (default 150)")
    parser.add_argument("--repeat", type=int, default=5, help="measured runs (default 5)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--top", type=int, default=20, help="kinds of operations to list (default 20)")
    options = parser.parse_args()

    engine = Engine(options.device, options.threads)
    weights = engine.weights(options.base)
    file = OmniVoiceFile.from_metadata(weights.metadata, weights.path)
    backbone = Backbone(weights, file, engine)
    step = Step(backbone, StepShape(options.prompt, options.frames))
    prompt = backbone.text_rows(np.arange(options.prompt, dtype=np.int32))
    codes = np.full((options.frames, file.codebooks), file.mask_code, np.int32)
    whole = step_milliseconds(step.prompted(prompt), codes, options.repeat)
    costs = profile(step.prompted(prompt), codes, options.repeat)
    positions = options.prompt + 2 * options.frames
    print(f"step of {positions} positions, {options.threads} threads: {whole:.0f} ms as a whole\n")
    print(table(by_operation(costs), options.top))
    print()
    print(table(costs, options.top))


def step_milliseconds(step: PromptedStep, codes: IntArray, repeat: int) -> float:
    """Return what a step takes when it runs as a whole, after one that warms up."""
    times = []
    for _ in range(repeat + 1):
        begin = perf_counter()
        step.guess(codes, GUIDANCE)
        times.append(1000 * (perf_counter() - begin))
    return median(times[1:])


def profile(step: PromptedStep, codes: IntArray, repeat: int) -> list[Cost]:
    """Return the cost of every kind of operation, the highest first."""
    rows = np.ascontiguousarray(step.step.backbone.table_rows(codes).T)
    inputs = {**step.fixed, "rows": rows, "guidance": np.array([GUIDANCE], np.float32)}
    runs = [step.step.program.profile(**inputs) for _ in range(repeat)]
    times: dict[Kind, list[float]] = defaultdict(list)
    for entries in zip(*runs, strict=True):
        operation, _, dtype, shape, _ = entries[0]
        times[Kind(operation, dtype, tuple(shape))].append(median(entry[-1] for entry in entries))
    costs = [Cost(kind, len(values), sum(values)) for kind, values in times.items()]
    return sorted(costs, key=lambda cost: -cost.milliseconds)


def by_operation(costs: list[Cost]) -> list[Cost]:
    """Add up the costs of operations that differ in their shapes only."""
    groups: dict[Kind, list[Cost]] = defaultdict(list)
    for cost in costs:
        groups[Kind(cost.kind.operation, cost.kind.dtype, ())].append(cost)
    merged = [
        Cost(kind, sum(cost.count for cost in group), sum(cost.milliseconds for cost in group))
        for kind, group in groups.items()
    ]
    return sorted(merged, key=lambda cost: -cost.milliseconds)


def table(costs: list[Cost], top: int) -> str:
    """Return a Markdown table of the highest costs and their sum."""
    total = sum(cost.milliseconds for cost in costs)
    lines = ["| operation | operand | result | count | ms | share |", "|---|---|---|---|---|---|"]
    for cost in costs[:top]:
        shape = "x".join(map(str, cost.kind.shape)) if prod(cost.kind.shape) > 1 else ""
        share = 100 * cost.milliseconds / total
        lines.append(
            f"| {cost.kind.operation} | {cost.kind.dtype} | {shape} | {cost.count}"
            f" | {cost.milliseconds:.1f} | {share:.1f} % |"
        )
    return "\n".join([*lines, f"| all | | | {sum(cost.count for cost in costs)} | {total:.1f} | |"])


if __name__ == "__main__":
    main()
