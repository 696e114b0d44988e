#!/usr/bin/env python3
"""Show where the time of one step of OmniVoice goes, operation by operation.

    python benchmarks/omnivoice_profile.py BASE.gguf --prompt 50 --frames 150

Operations run one by one, so their sum is a little more than what a step takes; medians over the runs.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import numpy as np
from operation_costs import Cost, by_operation, costs_of, table

from ggtts.core.engine import Engine
from ggtts.core.formats.omnivoice import OmniVoiceFile
from ggtts.core.omnivoice.backbone import Backbone
from ggtts.core.omnivoice.prompt import IntArray
from ggtts.core.omnivoice.scoring import PromptedStep, Step, StepShape

GUIDANCE = 2.0


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
    return costs_of([step.step.program.profile(**inputs) for _ in range(repeat)])


if __name__ == "__main__":
    main()
