#!/usr/bin/env python3
"""Time frames of the code predictor on an NVIDIA card: the kernel beside GGML's operations, alone and in batches.

    python benchmarks/predictor_kernel.py --device cuda0 models/random/random-talker-0.6b-base-Q8_0.gguf

With `--verify N`, N frames of the kernel are first compared with its emulation on the CPU, which takes seconds each.
Times are medians of whole calls from Python, in which states go to the device and codes come back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from ggtts.core.engine import Engine
from ggtts.core.engine.predictor_plan import PredictorPlan
from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.code_embeddings import CodeEmbeddings
from ggtts.core.qwen.code_predictor import CodePredictor
from ggtts.core.qwen.code_predictor_batch import CodePredictorBatch
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.kernel_predictor import SCOPE, FrameBatch, KernelPredictor, frame_draw, predictor_sizes
from ggtts.core.sampling import SamplingOptions

COLUMNS = (1, 2, 4, 8, 16, 32, 64)
CHAIN = SamplingOptions(temperature=0.9, top_k=50)


class Talker:
    """A talker file with what expands its frames."""

    def __init__(self, engine: Engine, path: str) -> None:
        self.weights = engine.weights(path)
        self.file = TalkerFile.from_metadata(self.weights.metadata, path)
        self.embeddings = CodeEmbeddings(self.weights, self.file.codebooks)
        self.predictor = CodePredictor(self.weights, self.file, self.embeddings, engine)
        self.sampler = FrameSampler(self.file, CHAIN, CHAIN, seed=42)

    def states(self, count: int) -> np.ndarray:
        """Return random states of the talker, [count, width]."""
        random = np.random.default_rng(count)
        return random.standard_normal((count, self.file.talker.width)).astype(np.float32)


def main() -> int:
    """Parse the options, compare, time, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("talkers", nargs="+", metavar="TALKER.gguf")
    parser.add_argument("--device", help="cuda0, ... (default: the best)")
    parser.add_argument("--repeat", type=int, default=30, help="measured calls of a kind (default 30)")
    parser.add_argument(
        "--verify", type=int, default=0, metavar="N", help="compare N frames with the emulation"
    )
    parser.add_argument(
        "--stock", type=int, nargs="*", default=[1, 16, 64], help="columns to time GGML's way"
    )
    options = parser.parse_args()
    engine = Engine(options.device)
    for path in options.talkers:
        talker = Talker(engine, path)
        print(f"\n## {Path(path).name} on {engine.device.description}\n", flush=True)
        kernel = talker.predictor.kernel
        if kernel is None:
            print("no kernel here")
            return 1
        if options.verify:
            print(verified(engine, talker, kernel, options.verify), flush=True)
        print("\n| frames together | kernel, ms | GGML, ms |\n|---|---|---|")
        for line in timed(talker, kernel, options.repeat, options.stock):
            print(line, flush=True)
    return 0


def verified(engine: Engine, talker: Talker, kernel: KernelPredictor, count: int) -> str:
    """Return one line about the kernel and its emulation."""
    emulated = PredictorPlan(
        Engine("cpu", 1), talker.weights, SCOPE, predictor_sizes(talker.file), emulated=(4, 4)
    )
    rows = talker.embeddings.rows(np.arange(count, dtype=np.int32))
    inputs = np.stack([talker.states(count), rows], axis=1)
    draws = [frame_draw(talker.sampler.others(frame)) for frame in range(count)]
    found, expected = (plan.expand(inputs, draws, with_logits=True) for plan in (kernel.plan, emulated))
    same = int((found.codes == expected.codes).all(axis=1).sum())
    # What follows a code that differs has another input.
    first = np.abs(found.logits[:, 0] - expected.logits[:, 0]).max()
    alike = (found.codes == expected.codes).all(axis=1)
    every = np.abs(found.logits - expected.logits)[alike].max(initial=0)
    again = kernel.plan.expand(inputs[:1], draws[:1], with_logits=True)
    alone = bool((again.logits == found.logits[:1]).all())
    return (
        f"{same} of {count} frames have the codes of the emulation; logits deviate by {first:.2g} (code 1), "
        f"{every:.2g} (all), of {np.abs(expected.logits).max():.3g}; a frame alone is the same: {alone}"
    )


def timed(talker: Talker, kernel: KernelPredictor, repeat: int, stock: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the table."""
    for columns in COLUMNS:
        fast = milliseconds(talker, KernelColumns(kernel), columns, repeat)
        slow = "-"
        if columns in stock:
            programs = CodePredictorBatch(talker.predictor, "f16", columns)
            slow = f"{milliseconds(talker, programs, columns, max(3, repeat // 3)):.2f}"
        yield f"| {columns} | {fast:.2f} | {slow} |"


class KernelColumns:
    """The kernel as a `FrameBatch`."""

    def __init__(self, kernel: KernelPredictor) -> None:
        self.expand = kernel.expand

    def clear(self) -> None:
        """There is nothing to let go of."""


def milliseconds(talker: Talker, batch: FrameBatch | KernelColumns, columns: int, repeat: int) -> float:
    """Return the median time of a call, after a few that warm up."""
    states, firsts = talker.states(columns), [7] * columns
    times = []
    for frame in range(3 + repeat):
        choices = [talker.sampler.others(frame) for _ in range(columns)]
        begin = perf_counter()
        batch.expand(states, firsts, choices)
        times.append(1000 * (perf_counter() - begin))
    return median(times[3:])


if __name__ == "__main__":
    sys.exit(main())
