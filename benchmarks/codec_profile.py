#!/usr/bin/env python3
"""Show what a codec of either family costs both ways, and where the time goes, operation by operation.

    python benchmarks/codec_profile.py models/random/random-tokenizer-12hz-Q8_0.gguf
    python benchmarks/codec_profile.py models/random/random-omnivoice-tokenizer-F32.gguf --seconds 10

Seconds of the clock and of processors: the first run, which reads the weights, and medians of the others. In the tables
operations run one by one, so their sum is more than what a run takes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter

import numpy as np
from measurement import peak_memory_mb
from omnivoice_options import recording
from operation_costs import by_operation, costs_of, table
from watched_engine import WatchedEngine

from ggtts.core.engine import Engine, Weights
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.qwen.codec.decoder import CodecDecoder
from ggtts.core.qwen.codec.encoder import CodecEncoder

Work = Callable[[], object]


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

    engine = WatchedEngine(options.device, options.threads)
    both = ways(engine, engine.weights(options.codec), options.seconds)
    print(f"{options.seconds:g} s of audio, {engine.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name, work in both.items():
        first, later = seconds(work), [seconds(work) for _ in range(options.repeat)]
        wall, processor = (median(values) for values in zip(*later, strict=True))
        print(
            f"{name}: {wall:.3f} s, of processors {processor:.3f} s; the first time {first[0]:.3f} s;",
            end=" ",
        )
        print(f"peak memory so far {peak_memory_mb():.0f} MB")
    for name, work in both.items():
        with engine.watch() as operations:
            work()
        costs = costs_of([operations])
        print(f"\n### {name}\n\n{table(by_operation(costs), options.top)}\n\n{table(costs, options.top)}")


def ways(engine: Engine, weights: Weights, length: float) -> Mapping[str, Work]:
    """Encoding a recording and decoding random codes, seconds of both, with the codec of a file."""
    if weights.architecture.startswith("omnivoice"):
        file = OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names(), weights.path)
        codec = OmniVoiceCodec(weights, file, engine)
        codes = random_codes(round(length * file.frame_rate), file.codebooks, file.codebook_entries)
        return {"encode": lambda: codec.encode(recording(length)), "decode": lambda: codec.decode(codes)}
    info = CodecFile.from_metadata(weights.metadata, weights.path)
    encoder, decoder = CodecEncoder(weights, info, engine), CodecDecoder(weights, info, engine)
    codes = random_codes(round(length * info.frame_rate), info.codebooks, info.decoder.codebook_entries)
    return {"encode": lambda: encoder.encode(recording(length)), "decode": lambda: decoder.decode(codes)}


def random_codes(frames: int, codebooks: int, entries: int) -> np.ndarray:
    """Return codes int32 [frames, codebooks]."""
    return np.random.default_rng(2).integers(0, entries, (frames, codebooks), np.int32)


def seconds(work: Work) -> Sequence[float]:
    """Return the seconds of the clock and of processors that work takes."""
    before, begin = os.times(), perf_counter()
    work()
    wall, after = perf_counter() - begin, os.times()
    return wall, after.user + after.system - before.user - before.system


if __name__ == "__main__":
    main()
