#!/usr/bin/env python3
"""Time the Qwen3-TTS codec with several streams in one run, on a device.

    python benchmarks/codec_batch.py CODEC.gguf --device cuda0 --lanes 1 4 16 64 --frames 1 4 16

Milliseconds are medians of whole calls from Python, codes going in and samples coming back; "alone" is a stream of its
own. The nodes are operations that a device runs: views cost it nothing. `--any` has other lanes take part than the
first ones, as when lines come and go; `--stock` times on a CPU what a GPU would run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from ggtts.core.engine import Engine
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecDecoder
from ggtts.core.qwen.codec.batch import most_frames
from ggtts.core.qwen.codec.lanes import DecoderLanes

FRAME_SECONDS = 0.08
HEADER = "| lanes | frames | ms a run | ms per second of audio | nodes | seconds to the first run |"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        lanes: streams in the run, None for a stream of its own.
        frames: of each stream.
        milliseconds: of a run.
        nodes: operations of a run that are no views.
        first_seconds: how long the first run took, with the making of its program.
    """

    lanes: int | None
    frames: int
    milliseconds: float
    nodes: int
    first_seconds: float

    def __str__(self) -> str:
        per_second = self.milliseconds / ((self.lanes or 1) * self.frames * FRAME_SECONDS)
        name = "alone" if self.lanes is None else str(self.lanes)
        return (
            f"| {name} | {self.frames} | {self.milliseconds:.2f} | {per_second:.2f} | {self.nodes} "
            f"| {self.first_seconds:.2f} |"
        )


def main() -> None:
    """Parse the options, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("codec", help="GGUF file of a codec")
    parser.add_argument("--device", help="cpu, cuda0, ... (default: the best)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--frames", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--repeat", type=int, default=20, help="measured runs of a kind (default 20)")
    parser.add_argument("--beyond", action="store_true", help="also runs of more frames than a batch makes")
    parser.add_argument("--any", action="store_true", help="other lanes than the first ones")
    parser.add_argument("--stock", action="store_true", help="without operations of our own")
    options = parser.parse_args()
    if options.stock:
        os.environ["GGTTS_STOCK"] = "1"
    engine = Engine(options.device, options.threads)
    weights = engine.weights(options.codec)
    decoder = CodecDecoder(weights, CodecFile.from_metadata(weights.metadata, weights.path), engine)
    print(f"{engine.device.description}, {engine.threads} threads, {options.codec}\n")
    print(HEADER, "|---|---|---|---|---|---|", sep="\n")
    for row in [*alone(decoder, options), *together(decoder, options)]:
        print(row, flush=True)


def alone(decoder: CodecDecoder, options: argparse.Namespace) -> Iterator[Row]:
    """Time a stream of its own."""
    lane = decoder.lanes(1)
    for frames in options.frames:
        codes = codes_for(decoder, 1, frames)
        yield timed(lane, [0], codes, options.repeat, lanes=None)


def together(decoder: CodecDecoder, options: argparse.Namespace) -> Iterator[Row]:
    """Time streams side by side; those of `--any` begin at the second lane, with a free one before them."""
    first = 1 if options.any else 0
    lanes = decoder.lanes(max(options.lanes) + 1)
    for count in options.lanes:
        for frames in options.frames:
            if options.beyond or frames * count <= most_frames(decoder.engine):
                codes = codes_for(decoder, count, frames)
                yield timed(lanes, range(first, first + count), codes, options.repeat, lanes=count)


def codes_for(decoder: CodecDecoder, lanes: int, frames: int) -> np.ndarray:
    """Return random codes [lanes, frames, codebooks]."""
    return np.random.default_rng(0).integers(0, decoder.entries, (lanes, frames, decoder.codebooks))


def timed(
    memory: DecoderLanes, chosen: Sequence[int], codes: np.ndarray, repeat: int, *, lanes: int | None
) -> Row:
    """Return the median time of a run."""
    times = []
    for _ in range(4 + repeat):
        begin = perf_counter()
        memory.run(chosen, codes)
        times.append(perf_counter() - begin)
    return Row(lanes, codes.shape[1], 1000 * median(times[4:]), memory.operations, times[0])


if __name__ == "__main__":
    main()
