#!/usr/bin/env python3
"""Run a benchmark or the server on a GPU that is not there: programs take the time that they took on a card.

    python benchmarks/simulated_device.py benchmarks/batching.py TALKER.gguf CODEC.gguf --frames 50 --at-once 16
    python benchmarks/server.py TALKER.gguf CODEC.gguf --simulated --frames 50 --clients 16 --max-batch 16

Nothing is computed: a program sleeps, which leaves the processor and Python's lock to others as waiting for a card
does, and answers with random numbers. All the rest is real, and takes the programs that it takes on a card: scheduler,
threads, sampling, prompts, server. What comes out is no measurement of a card. It shows where time goes beside the
card, and whether a change of that is for the better. For Linux, with cores to spare (`chrt -r 1` has them at once),
and a model of the real sizes with few layers (`make_model.py --layers 1`): keys and values are there, in vain.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from ggtts._native import RightOfWay
from ggtts.core.engine import Engine, Graph
from ggtts.core.engine.predictor_plan import ComputedFrames
from ggtts.core.qwen.code_predictor import CodePredictor
from ggtts.core.qwen.kernel_predictor import KernelPredictor
from ggtts.core.qwen.kernel_talker import KernelTalker
from ggtts.core.qwen.talker import Talker

Curve = Mapping[int, float]
"""Milliseconds by size; between two sizes on a straight line, and beyond the last two on theirs."""

PR_SET_TIMERSLACK = 29
FEW_STREAMS = 4


@dataclass(frozen=True)
class Costs:
    """What a 0.6B model in Q8_0 and its codec cost on one H200, in ms.

    Measured (results/qwen-h200.md, docs/cuda.md), a lone talker and the predictor where the codec works beside them:

    Attributes:
        prompt: a run of prompts, by positions of all of them.
        talker: a step of the kernel, by utterances, with 20 to 150 positions before it.
        predictor: a frame, by utterances.

    Measured while nothing else ran:

    Attributes:
        codec: a run, by frames of all streams.
        stream: what each stream of it beyond the fourth adds.

    Not measured by themselves, chosen so that a lone stream and 16 lines at once begin as late as on the card:

    Attributes:
        small: a small program that is run, as the one that projects the tokens of a text.
        copies: one that copies the memory of a stream of the codec.
        making: allocating a program of any size.
        first_runs: how much longer a large program takes in each of its first two runs, operation by operation, and
            in the third, when it is captured.
    """

    prompt: Curve = field(default_factory=lambda: {16: 3.0, 200: 6.6})
    talker: Curve = field(default_factory=lambda: {1: 0.69, 2: 1.1, 16: 1.26, 64: 2.28})
    predictor: Curve = field(
        default_factory=lambda: {1: 1.57, 2: 1.95, 4: 2.59, 8: 3.05, 16: 3.29, 32: 3.97, 64: 5.88}
    )
    codec: Curve = field(default_factory=lambda: {1: 1.1, 4: 1.42, 16: 1.9, 64: 3.25})
    stream: float = 0.035
    small: float = 0.25
    copies: float = 0.3
    making: float = 0.5
    first_runs: tuple[float, float, float] = (3.0, 3.0, 8.0)


def on_curve(curve: Curve, size: int) -> float:
    """Return the milliseconds of a size."""
    sizes = sorted(curve)
    place = min(max(1, sum(known < size for known in sizes)), len(sizes) - 1)
    low, high = sizes[place - 1 : place + 1]
    slope = (curve[high] - curve[low]) / (high - low)
    return max(curve[sizes[0]], curve[low] + (size - low) * slope)


class Card:
    """A GPU. A kernel of talker or predictor has all of it; programs, as those of the codec, have the time in between.

    That is how times of the codec on an H200 can be understood: beside generation it took three to eight times as long
    as alone, and kernels 5 % longer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._way = RightOfWay()
        self._kernel = 0.0, 0.0  # the last one: from when to when
        self._kernel_seconds = 0.0  # of all before it

    @contextmanager
    def right_of_way(self, engine: Engine) -> Iterator[None]:
        """Let a second engine go first, as `Engine.right_of_way` does."""
        self._way.take()
        try:
            yield
        finally:
            self._way.leave()

    def begin_kernel(self, milliseconds: float) -> float:
        """Have a kernel to run; return when it is done."""
        self._way.give()
        with self._lock:
            last_begin, last_end = self._kernel
            self._kernel_seconds += last_end - last_begin
            begin = max(last_end, time.perf_counter())
            self._kernel = begin, begin + milliseconds / 1000
            return self._kernel[1]

    def run_kernel(self, milliseconds: float) -> None:
        """Run a kernel, and wait for it."""
        wait_until(self.begin_kernel(milliseconds))

    def run_program(self, milliseconds: float) -> None:
        """Run operations, and wait for them."""
        end = self._seconds_between() + milliseconds / 1000
        while (left := end - self._seconds_between()) > 0:
            wait_until(max(self._kernel[1], time.perf_counter()) + left)

    def _seconds_between(self) -> float:
        """Return for how long there was no kernel so far."""
        with self._lock:
            now = time.perf_counter()
            begin, end = self._kernel
            return now - self._kernel_seconds - max(0.0, min(now, end) - begin)


def wait_until(moment: float) -> None:
    """Sleep, if it is not past."""
    time.sleep(max(0.0, moment - time.perf_counter()))


@dataclass(frozen=True)
class Work:
    """What a program takes: each run, and whether it has so many operations that its first runs take longer."""

    milliseconds: float
    large: bool


class SleepingProgram:
    """Answers with the same random numbers after the time that a program takes."""

    def __init__(self, card: Card, work: Work, costs: Costs, outputs: Mapping[str, Any]) -> None:
        self._card, self._work = card, work
        self._extra = list(costs.first_runs) if work.large else []
        self._shapes = {}
        for name, tensor in outputs.items():
            shape = tensor.shape[::-1]
            first = next((axis for axis, size in enumerate(shape) if size > 1), 3)
            self._shapes[name] = shape[first:]

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        extra = self._extra.pop(0) if self._extra else 0.0
        time.sleep(extra / 1000)  # that is launching and capturing
        self._card.run_program(self._work.milliseconds)
        return {name: _numbers(shape) for name, shape in self._shapes.items()}


@cache
def _numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Return random numbers, which are the same every time: making them is no part of what is measured."""
    numbers = np.random.default_rng(1).normal(0.0, 0.2, shape).astype(np.float32)
    numbers.setflags(write=False)
    return numbers


@dataclass(frozen=True)
class SleepingSteps:
    """Steps of the talker that are there at a moment."""

    done_at: float
    hidden: np.ndarray
    logits: np.ndarray

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Answer as `BegunSteps.result`."""
        wait_until(self.done_at)
        return self.hidden, self.logits


class SleepingTalker:
    """The kernel of the talker."""

    most_positions = 1 << 15

    def __init__(self, card: Card, costs: Costs, vocabulary: int, width: int) -> None:
        self._card, self._costs = card, costs
        self._vocabulary, self._width = vocabulary, width

    def prepare_together(self) -> bool:
        """Answer as `TalkerPlan.prepare_together`."""
        return True

    def step(self, state: Any, slot: int, position: int, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answer as `TalkerPlan.step`."""
        self._card.run_kernel(on_curve(self._costs.talker, 1))
        return _numbers((self._width,)), _numbers((self._vocabulary,))

    def begin_together(
        self, state: Any, slots: Sequence[int], positions: Sequence[int], rows: np.ndarray
    ) -> SleepingSteps:
        """Answer as `TalkerPlan.begin_together`."""
        done_at = self._card.begin_kernel(on_curve(self._costs.talker, len(slots)))
        shapes = (len(slots), self._width), (len(slots), self._vocabulary)
        return SleepingSteps(done_at, _numbers(shapes[0]), _numbers(shapes[1]))


class SleepingPlan:
    """The kernel of the code predictor."""

    most_columns = 64

    def __init__(self, card: Card, costs: Costs, codebooks: int, width: int) -> None:
        self._card, self._costs = card, costs
        generator = np.random.default_rng(2)
        # No loop that the guard against loops could see.
        self._frames = cycle(
            generator.integers(0, 50, (97, self.most_columns, codebooks - 1)).astype(np.int32)
        )
        self._sums = generator.normal(0.0, 1.0, (self.most_columns, width)).astype(np.float32)

    def expand(
        self, inputs: np.ndarray, draws: Sequence[Any], *, with_logits: bool = False
    ) -> ComputedFrames:
        """Answer as `PredictorPlan.expand`."""
        self._card.run_kernel(on_curve(self._costs.predictor, len(draws)))
        count = len(draws)
        return ComputedFrames(next(self._frames)[:count], self._sums[:count], np.zeros((0, 0, 0), np.float32))


class SimulatedGpu:
    """Takes the place of a device, for all models that are opened after `install`."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._card = Card()

    def install(self) -> None:
        """Replace what runs programs; the process is good for nothing else afterwards."""
        os.environ["GGTTS_STOCK"] = "1"  # the programs, padding and masks of GPUs
        os.environ["GGTTS_DEVICE"] = "cpu"
        # Sleeping ends within 50 us as a rule, which is much of a short run.
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
        make_input, beside = Graph.input, Engine.beside

        def noted_input(graph: Any, name: str, shape: Sequence[int], dtype: str = "f32") -> Any:
            graph.__dict__.setdefault("shapes", {})[name] = tuple(shape)
            return make_input(graph, name, shape, dtype)

        replaced: Any = Graph
        replaced.input = noted_input
        replaced.program = lambda graph, outputs: self._program(graph, outputs)
        make_state = cache(lambda engine, layout: make_given_state(engine, dict(layout)))
        make_given_state = Engine.state
        # Nobody reads what is in there, and zeroing it takes longer than a card does.
        replaced_engine: Any = Engine
        replaced_engine.state = lambda engine, layout: make_state(engine, tuple(layout.items()))
        replaced_engine.right_of_way = lambda engine: self._card.right_of_way(engine)
        Engine.beside = lambda engine, **_: beside(engine, always=True)  # type: ignore[method-assign]
        predictors: Any = CodePredictor
        predictors.kernel = property(lambda predictor: self._kernel(predictor))
        talkers: Any = Talker
        talkers.kernel = property(lambda talker: self._talker_kernel(talker))

    def _program(self, graph: Any, outputs: Mapping[str, Any]) -> Any:
        time.sleep(self._costs.making / 1000)
        work = self._work(outputs, getattr(graph, "shapes", {}))
        return SleepingProgram(self._card, work, self._costs, outputs)

    def _work(self, outputs: Mapping[str, Any], inputs: Mapping[str, tuple[int, ...]]) -> Work:
        """Recognise a program by what goes in and what comes out."""
        costs = self._costs
        if "samples" in outputs:
            beyond = max(0, inputs["mask"][3] - FEW_STREAMS)
            return Work(on_curve(costs.codec, inputs["positions"][0]) + beyond * costs.stream, True)
        if "answered" in inputs:
            return Work(on_curve(costs.prompt, inputs["x"][1]), True)
        if "logits" in outputs:
            return Work(on_curve(costs.talker, inputs["x"][1]), inputs["x"][1] > 1)
        return Work(costs.small if outputs else costs.copies, False)

    def _kernel(self, predictor: Any) -> KernelPredictor:
        known = predictor.__dict__.get("simulated")
        if known is None:
            embeddings = predictor.embeddings
            plan: Any = SleepingPlan(self._card, self._costs, embeddings.codebooks, embeddings.width)
            known = predictor.__dict__["simulated"] = KernelPredictor(plan, embeddings)
        return known

    def _talker_kernel(self, talker: Any) -> KernelTalker:
        known = talker.__dict__.get("simulated")
        if known is None:
            file = talker._file
            steps: Any = SleepingTalker(self._card, self._costs, file.vocabulary, file.talker.width)
            known = talker.__dict__["simulated"] = KernelTalker(steps)
        return known


def main() -> None:
    """Install, then run a script, or a module behind -m, with the rest of the arguments."""
    if len(sys.argv) < 2:
        sys.exit("name a script, or -m and a module")
    SimulatedGpu(Costs()).install()
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
