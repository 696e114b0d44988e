#!/usr/bin/env python3
"""Time steps of the talker on an NVIDIA card: the kernel beside GGML's operations, after few positions and many.

    python benchmarks/talker_kernel.py --device cuda0 models/random/random-talker-0.6b-base-Q8_0.gguf

With `--verify`, steps are first compared with the kernel's emulation on the CPU, which takes seconds each. Times are
medians of whole calls from Python, in which a row goes to the device and a state and logits come back. With
`--at-once 2 16 64`, so many utterances take their steps together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from ggtts.core.engine import Engine
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.kernel_talker import SCOPE, KernelTalker, talker_sizes
from ggtts.core.qwen.talker import Talker
from ggtts.core.qwen.talker_batch import Prefill, TalkerBatch

POSITIONS = (20, 100, 250, 500, 1000, 4000)
POSITIONS_OF_BATCHES = (20, 150, 1000)


def main() -> int:
    """Parse the options, compare, time, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("talkers", nargs="+", metavar="TALKER.gguf")
    parser.add_argument("--device", help="cuda0, ... (default: the best)")
    parser.add_argument("--repeat", type=int, default=30, help="measured steps of a kind (default 30)")
    parser.add_argument("--verify", action="store_true", help="compare with the emulation")
    parser.add_argument(
        "--at-once", type=int, nargs="+", default=[1], help="utterances in a step (default 1)"
    )
    options = parser.parse_args()
    engine = Engine(options.device)
    for path in options.talkers:
        weights = engine.weights(path)
        file = TalkerFile.from_metadata(weights.metadata, path)
        talker, plain = (Talker(weights, file, engine) for _ in range(2))
        print(f"\n## {Path(path).name} on {engine.device.description}\n", flush=True)
        kernel = talker.kernel
        if kernel is None:
            print("no kernel here")
            return 1
        vars(plain)["_kernel"] = None
        if options.verify:
            print(verified(path, file, talker), flush=True)
        print("\n| at once | positions before | kernel, ms | GGML, ms | logits deviate by | of |")
        print("|---|---|---|---|---|---|")
        for count in options.at_once:
            for positions in POSITIONS if count == 1 else POSITIONS_OF_BATCHES:
                print(f"| {count} " + compared(talker, plain, count, positions, options.repeat), flush=True)
    return 0


def rows(talker: Talker, count: int) -> np.ndarray:
    """Return random inputs, [count, width]."""
    random = np.random.default_rng(count)
    return random.standard_normal((count, talker.config.width)).astype(np.float32)


def verified(path: str, file: TalkerFile, talker: Talker) -> str:
    """Return one line about the kernel and its emulation."""
    host = Engine("cpu")
    weights = host.weights(path)
    plan = TalkerPlan(weights, SCOPE, talker_sizes(file), talker.config.rope_theta, emulated=(4, 4))
    emulated = Talker(weights, file, host)
    vars(emulated)["_kernel"] = KernelTalker(plan)
    sessions = [talker.session("f32"), emulated.session("f32")]
    deviation, largest = 0.0, 0.0
    for row in rows(talker, 3):
        found, expected = (session.decode(row) for session in sessions)
        deviation = max(deviation, float(np.abs(found.logits - expected.logits).max()))
        largest = max(largest, float(np.abs(expected.logits).max()))
    return f"logits deviate by {deviation:.2g} of {largest:.3g} from the emulation's"


class Utterances:
    """Some utterances that take their steps together, after prompts of one length."""

    def __init__(self, talker: Talker, prompts: np.ndarray, frames: int) -> None:
        """`prompts` are [utterances, positions, width]."""
        self._batch = TalkerBatch(talker, "f16", len(prompts))
        self._slots = [self._batch.join() for _ in prompts]
        begun = [Prefill(slot, prompt, frames) for slot, prompt in zip(self._slots, prompts, strict=True)]
        for places in self._batch.groups(begun):
            self._batch.prefill_together([begun[place] for place in places])

    def step(self, inputs: np.ndarray) -> np.ndarray:
        """Return the logits after inputs [utterances, width]."""
        return self._batch.decode_arrays(self._slots, inputs)[0]


def compared(talker: Talker, plain: Talker, count: int, positions: int, repeat: int) -> str:
    """Return a line of the table: both ways after prompts of that length."""
    inputs = rows(talker, count * (positions + repeat + 3)).reshape(positions + repeat + 3, count, -1)
    both = [Utterances(one, inputs[:positions].swapaxes(0, 1), repeat + 3) for one in (talker, plain)]
    found, expected = (utterances.step(inputs[positions]) for utterances in both)
    fast, slow = (milliseconds(utterances, inputs[positions + 1 :]) for utterances in both)
    deviation = np.abs(found - expected).max()
    return f"| {positions} | {fast:.2f} | {slow:.2f} | {deviation:.2g} | {np.abs(expected).max():.3g} |"


def milliseconds(utterances: Utterances, inputs: np.ndarray) -> float:
    """Return the median time of a step, after two that warm up."""
    times = []
    for step in inputs:
        begin = perf_counter()
        utterances.step(step)
        times.append(1000 * (perf_counter() - begin))
    return median(times[2:])


if __name__ == "__main__":
    sys.exit(main())
