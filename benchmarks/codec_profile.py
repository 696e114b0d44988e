#!/usr/bin/env python3
"""Show what a codec costs both ways, and where the time goes, operation by operation; of either family.

    python benchmarks/codec_profile.py models/random/random-tokenizer-12hz-Q8_0.gguf
    python benchmarks/codec_profile.py models/random/random-omnivoice-tokenizer-F32.gguf --seconds 10

Wall clock and processor seconds, the first run (which loads the weights) and medians of the others. In the tables
operations run one by one, so their sum is a little more than what a run takes.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from measurement import peak_memory_mb
from omnivoice_profile import Cost, Kind, by_operation, table

from ggtts.core.engine import Engine, Graph, Program, Tensor, Weights
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.qwen.codec.decoder import CodecDecoder
from ggtts.core.qwen.codec.encoder import CodecEncoder

Times = dict[Kind, list[float]]
Work = Callable[[], object]


class ProfiledProgram:
    """A program whose operations are timed before each run; effects on state happen twice."""

    def __init__(self, program: Program, times: Times) -> None:
        self._program, self._times = program, times

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Profile, then run."""
        for operation, name, dtype, shape, milliseconds in self._program.profile(**inputs):
            if operation == "CUSTOM" and not name.startswith("node_"):  # what GGML calls the nameless
                operation = name
            self._times[Kind(operation, dtype, tuple(shape))].append(milliseconds)
        results: dict[str, np.ndarray] = self._program(**inputs)
        return results


class ProfilingEngine(Engine):
    """An engine that notes what the operations of its programs take, while it is told to."""

    def __init__(self, device: str | None, threads: int) -> None:
        super().__init__(device, threads)
        self.times: Times | None = None

    def graph(self, *arguments: int) -> Graph:
        """A graph whose program is profiled."""
        return ProfiledGraph(self, *arguments) if self.times is not None else super().graph(*arguments)


class ProfiledGraph(Graph):
    """A graph of a `ProfilingEngine`."""

    def __init__(self, engine: ProfilingEngine, max_operations: int = 4096) -> None:
        super().__init__(engine, max_operations)
        self._times = engine.times

    def program(self, outputs: Mapping[str, Tensor]) -> Any:
        """End the graph, as `Graph.program` does."""
        program = super().program(outputs)
        return program if self._times is None else ProfiledProgram(program, self._times)


def main() -> None:
    """Parse the options, measure both ways, print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--seconds", type=float, default=10.0, help="of audio (default 10)")
    parser.add_argument("--repeat", type=int, default=5, help="measured runs (default 5)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--top", type=int, default=12, help="kinds of operations to list (default 12)")
    options = parser.parse_args()

    engine = ProfilingEngine(options.device, options.threads)

    def opened() -> Mapping[str, Work]:
        return ways(engine, engine.weights(options.codec), options.seconds)

    print(f"{options.seconds:g} s of audio, {engine.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name, work in opened().items():
        first, later = timed(work), [timed(work) for _ in range(options.repeat)]
        wall, processor = (median(values) for values in zip(*later, strict=True))
        print(
            f"{name}: {wall:.3f} s, of processors {processor:.3f} s; the first time {first[0]:.3f} s;",
            end=" ",
        )
        print(f"peak memory so far {peak_memory_mb():.0f} MB")
    for name, work in opened().items():
        costs = profiled(engine, work)
        print(f"\n{name}\n")
        print(table(by_operation(costs), options.top), table(costs, options.top), sep="\n\n")


def ways(engine: Engine, weights: Weights, seconds: float) -> Mapping[str, Work]:
    """Encoding noise and decoding random codes with the codec of a file."""
    random = np.random.default_rng(0)

    def noise(rate: int) -> np.ndarray:
        return (0.1 * random.standard_normal(round(seconds * rate))).astype(np.float32)

    def codes(rate: float, codebooks: int, entries: int) -> np.ndarray:
        return random.integers(0, entries, (round(seconds * rate), codebooks)).astype(np.int32)

    if weights.architecture.startswith("omnivoice"):
        file = OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names(), weights.path)
        codec = OmniVoiceCodec(weights, file, engine)
        samples = noise(file.sample_rate)
        given = codes(file.frame_rate, file.codebooks, file.codebook_entries)
        return {"encode": lambda: codec.encode(samples), "decode": lambda: codec.decode(given)}
    info = CodecFile.from_metadata(weights.metadata, weights.path)
    encoder, decoder = CodecEncoder(weights, info, engine), CodecDecoder(weights, info, engine)
    samples = noise(info.sample_rate)
    entries = weights.shape("tok_dec.vq_first.0.codebook")[0]
    given = codes(info.frame_rate, info.codebooks, entries)
    return {"encode": lambda: encoder.encode(samples), "decode": lambda: decoder.decode(given)}


def timed(work: Work) -> Sequence[float]:
    """Return the seconds of the clock and of processors that work takes."""
    before, begin = os.times(), perf_counter()
    work()
    wall, after = perf_counter() - begin, os.times()
    return wall, after.user + after.system - before.user - before.system


def profiled(engine: ProfilingEngine, work: Work) -> list[Cost]:
    """Return what every kind of operation takes when work builds its programs and runs them, the highest cost first."""
    times = engine.times = defaultdict(list)
    work()
    engine.times = None
    costs = [Cost(kind, len(values), sum(values)) for kind, values in times.items()]
    return sorted(costs, key=lambda cost: -cost.milliseconds)


if __name__ == "__main__":
    main()
