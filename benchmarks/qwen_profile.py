#!/usr/bin/env python3
"""Show where the time of each stage of Qwen3-TTS goes, operation by operation.

    python benchmarks/qwen_profile.py TALKER.gguf CODEC.gguf
    python benchmarks/qwen_profile.py TALKER.gguf CODEC.gguf --stage talker predictor --top 30

Operations run one by one, so their sum is more than what a stage takes as a whole; medians over the runs. The stages:
"prefill" of a prompt, a step of the "talker", a frame of the "predictor", the codec's "decoder" and "encoder".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
from omnivoice_options import recording
from operation_costs import by_operation, costs_of, table
from watched_engine import WatchedEngine

from ggtts.core.formats.qwen import CodecFile, TalkerFile
from ggtts.core.qwen.code_embeddings import CodeEmbeddings
from ggtts.core.qwen.code_predictor import CodePredictor
from ggtts.core.qwen.codec.decoder import CodecDecoder
from ggtts.core.qwen.codec.encoder import CodecEncoder
from ggtts.core.qwen.talker import Talker

Work = Callable[[], object]


def main() -> None:
    """Parse the options, profile each stage, print two tables for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("talker", help="talker GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=list(STAGES), help="default: all")
    parser.add_argument("--prompt", type=int, default=50, help="positions of a prompt (default 50)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of audio for the codec (default 4)")
    parser.add_argument("--repeat", type=int, default=5, help="measured runs (default 5)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--top", type=int, default=12, help="kinds of operations to list (default 12)")
    options = parser.parse_args()

    engine = WatchedEngine(options.device, options.threads)
    for stage in options.stage:
        work = STAGES[stage](engine, options)
        whole = milliseconds(work, options.repeat)
        runs = []
        for _ in range(options.repeat):
            with engine.watch() as operations:
                work()
            runs.append(operations)
        costs = costs_of(runs)
        print(f"### {stage}, {options.threads} threads: {whole:.2f} ms as a whole\n")
        print(f"{table(by_operation(costs), options.top)}\n\n{table(costs, options.top)}\n", flush=True)


def milliseconds(work: Work, repeat: int) -> float:
    """Return the median time of some work, after once to warm up."""
    times = []
    for _ in range(repeat + 1):
        begin = perf_counter()
        work()
        times.append(1000 * (perf_counter() - begin))
    return median(times[1:])


def prefill(engine: WatchedEngine, options: argparse.Namespace) -> Work:
    """A prompt."""
    talker = _talker(engine, options)
    session = talker.session()
    prompt = _rows(options.prompt, talker.config.width)
    return lambda: session.prefill(prompt)


def talker_step(engine: WatchedEngine, options: argparse.Namespace) -> Work:
    """A frame's first code."""
    talker = _talker(engine, options)
    session = talker.session()
    session.prefill(_rows(options.prompt, talker.config.width), frames=100)
    row = _rows(1, talker.config.width)[0]
    return lambda: session.decode(row)


def predictor_frame(engine: WatchedEngine, options: argparse.Namespace) -> Work:
    """A frame's other codes."""
    weights = engine.weights(options.talker)
    file = TalkerFile.from_metadata(weights.metadata, options.talker)
    embeddings = CodeEmbeddings(weights, file.codebooks)
    session = CodePredictor(weights, file, embeddings, engine).session()
    hidden = _rows(1, file.talker.width)[0]
    return lambda: session.expand(hidden, 0, lambda logits, codebook: 0)


def decoder(engine: WatchedEngine, options: argparse.Namespace) -> Work:
    """Codes to samples."""
    weights = engine.weights(options.codec)
    file = CodecFile.from_metadata(weights.metadata, options.codec)
    entries, frames = file.decoder.codebook_entries, round(options.seconds * file.frame_rate)
    codes = np.random.default_rng(2).integers(0, entries, (frames, file.codebooks), np.int32)
    codec = CodecDecoder(weights, file, engine)
    return lambda: codec.decode(codes)


def encoder(engine: WatchedEngine, options: argparse.Namespace) -> Work:
    """Samples to codes."""
    weights = engine.weights(options.codec)
    codec = CodecEncoder(weights, CodecFile.from_metadata(weights.metadata, options.codec), engine)
    samples = recording(options.seconds)
    return lambda: codec.encode(samples)


def _talker(engine: WatchedEngine, options: argparse.Namespace) -> Talker:
    weights = engine.weights(options.talker)
    return Talker(weights, TalkerFile.from_metadata(weights.metadata, options.talker), engine)


def _rows(count: int, width: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, width), np.float32)


STAGES = {
    "prefill": prefill,
    "talker": talker_step,
    "predictor": predictor_frame,
    "decoder": decoder,
    "encoder": encoder,
}

if __name__ == "__main__":
    main()
