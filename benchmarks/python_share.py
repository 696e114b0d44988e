#!/usr/bin/env python3
"""Measure what Python costs in batches: the models answer at once, with random numbers; all the rest is real.

    python benchmarks/python_share.py
    python benchmarks/python_share.py --profile 64

Prints microseconds of processor time for each line and frame, with 1, 16 and 64 lines at once, by the demo voice (or
the files given): of everything but the runs of programs, the sampling of codes included. "kernel" is the code
predictor as a kernel of an NVIDIA GPU, where the host sees codes and no logits; "programs" is as the CPU runs it,
with 15 choices in each frame.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import pstats
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ggtts import QwenTTS, Sampling, SpeechRequest, demo_paths
from ggtts.core.engine import Graph
from ggtts.core.engine.predictor_plan import ComputedFrames
from ggtts.core.qwen.kernel_predictor import KernelPredictor


class InstantProgram:
    """Answers with the same random numbers every time."""

    def __init__(self, outputs: Mapping[str, Any]) -> None:
        generator = np.random.default_rng(1)
        self._answers = {}
        for name, tensor in outputs.items():
            shape = tensor.shape[::-1]
            first = next((axis for axis, size in enumerate(shape) if size > 1), 3)
            numbers = generator.normal(0.0, 2.0, shape[first:]).astype(np.float32)
            self._answers[name] = np.zeros_like(numbers) if name == "samples" else numbers

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        return self._answers


class InstantPlan:
    """The code predictor's kernel, answering at once."""

    most_columns = 64

    def __init__(self, codebooks: int, width: int) -> None:
        generator = np.random.default_rng(2)
        # No loop that the guard against loops could see.
        self._frames = cycle(generator.integers(0, 50, (97, 64, codebooks - 1)).astype(np.int32))
        self._sums = generator.normal(0.0, 1.0, (64, width)).astype(np.float32)

    def expand(
        self, inputs: np.ndarray, draws: Sequence[Any], *, with_logits: bool = False
    ) -> ComputedFrames:
        count = len(draws)
        return ComputedFrames(next(self._frames)[:count], self._sums[:count], np.zeros((0, 0, 0), np.float32))


def main() -> None:
    """Parse the options, measure, print the table."""
    logging.getLogger("ggtts").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="GGUF", help="talker and codec; none: demo")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 16, 64], metavar="N")
    parser.add_argument("--frames", type=int, default=100, help="frames of each line")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--overlap", action="store_true", help="decode on a thread of its own, as on a GPU")
    parser.add_argument("--profile", type=int, metavar="N", help="show where the time of N lines goes")
    options = parser.parse_args()
    files = options.files or demo_paths()
    Graph.program = lambda graph, outputs: InstantProgram(outputs)  # type: ignore[method-assign,return-value,assignment]
    for kind in ("kernel", "programs"):
        with QwenTTS.open(*files, threads=1, device="cpu", overlap=options.overlap) as model:
            if kind == "kernel":
                use_kernel(model)
            if options.profile:
                profile(model, options.profile, options.frames)
            else:
                costs = [f"{n}: {cost(model, n, options):.0f}" for n in options.at_once]
                print(f"{kind:9} us per line and frame, by lines at once:  " + "   ".join(costs))


def use_kernel(model: QwenTTS) -> None:
    """Let a model have the kernel."""
    predictor = model._sessions._predictor
    plan = InstantPlan(model.info.codebooks, model.info.talker.width)
    predictor.__dict__["_kernel"] = KernelPredictor(plan, predictor.embeddings)  # type: ignore[arg-type]


def cost(model: QwenTTS, lines: int, options: argparse.Namespace) -> float:
    """Return microseconds per line and frame."""
    return median(speak(model, lines, options.frames) for _ in range(options.repeat))


def speak(model: QwenTTS, lines: int, frames: int) -> float:
    """Speak lines; return microseconds per line and frame, prefill and all included."""
    speaker = next(iter(model.speakers), None)
    requests = [
        SpeechRequest(
            f"Line number {number}.",
            speaker=speaker,
            sampling=Sampling(seed=number),
            max_frames=frames,
            split=False,
        )
        for number in range(max(lines, 8))
    ]
    started = time.process_time()
    spoken = sum(speech.frames for speech in model.speak_many(requests, parallel=lines))
    return (time.process_time() - started) * 1e6 / spoken


def profile(model: QwenTTS, lines: int, frames: int) -> None:
    """Print what the thread of the scheduler spends its time with."""
    profiles: list[cProfile.Profile] = []
    run = threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        profiles.append(cProfile.Profile())
        profiles[-1].runcall(run, thread)

    speak(model, lines, frames)
    threading.Thread.run = profiled  # type: ignore[method-assign]
    each = speak(model, lines, frames)
    threading.Thread.run = run  # type: ignore[method-assign]
    print(f"{each:.0f} us per line and frame while profiled")
    for found in profiles:
        pstats.Stats(found).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
