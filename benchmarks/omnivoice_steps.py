#!/usr/bin/env python3
"""Show how near OmniVoice's speech in fewer steps comes to its speech in 32, and what it costs.

    python benchmarks/omnivoice_steps.py BASE.gguf CODEC.gguf
    python benchmarks/omnivoice_steps.py BASE.gguf CODEC.gguf --voice me.rvq --text "What to say." --seeds 5

Every run has the same text, length and seed as the one of 32 steps. Two numbers: how many codes are equal, and how far
the vectors that the codec decodes are from those of 32 steps, relative to their spread (0 is equal, about 1.4 is
unrelated). A run is drawn from a distribution, so neither says how good speech is: the row of 32 steps with another
seed says what runs that are equally good differ by. With random weights only the cost means anything.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from statistics import mean
from time import process_time

import numpy as np
import numpy.typing as npt
from omnivoice_options import measured_text

from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.omnivoice.model import OmniClonedVoice, OmniVoice

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Run:
    """Speech as codes [frames, codebooks], and the seconds of processor time that finding them took."""

    codes: Codes
    seconds: float


@dataclass(frozen=True)
class Nearness:
    """How near a run comes to another: shares of equal codes, and the distance of the vectors."""

    equal: float
    equal_first: float
    distance: float


def main() -> None:
    """Parse the options, measure, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="language model GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--steps", type=int, nargs="+", default=[8, 12, 16, 24], help="default 8 12 16 24")
    parser.add_argument("--against", type=int, default=32, help="steps to compare with (default 32)")
    parser.add_argument("--seeds", type=int, default=2, help="seeds to average over (default 2)")
    parser.add_argument(
        "--voice", help=".rvq file with notes beside it (default: the model makes up a voice)"
    )
    parser.add_argument("--language", default="en")
    parser.add_argument("--position-temp", type=float, default=5.0, help="0 is greedy (default 5)")
    parser.add_argument("--device", default=None, help="cpu, cuda0, ... (default: the best)")
    measured_text(parser)
    options = parser.parse_args()
    with OmniVoice.open(options.base, options.codec, device=options.device, threads=options.threads) as model:
        codec = OmniVoiceCodec.open(options.codec, device=options.device, threads=options.threads)
        print(table(measured(model, codec, options), options))


def measured(
    model: OmniVoice, codec: OmniVoiceCodec, options: argparse.Namespace
) -> dict[str, list[tuple[Run, Nearness]]]:
    """Return the runs of every row of the table, one for each seed."""
    voice = None if options.voice is None else model.stored_voice(options.voice)
    speak(model, options, voice, 1, seed=1)  # warms up
    rows: dict[str, list[tuple[Run, Nearness]]] = defaultdict(list)
    for seed in range(options.seeds):
        wanted = speak(model, options, voice, options.against, seed)
        for steps in options.steps:
            run = speak(model, options, voice, steps, seed)
            rows[str(steps)].append((run, nearness(codec, run.codes, wanted.codes)))
        other = speak(model, options, voice, options.against, seed + options.seeds)
        rows[f"{options.against}, another seed"].append((other, nearness(codec, other.codes, wanted.codes)))
    return rows


def speak(
    model: OmniVoice, options: argparse.Namespace, voice: OmniClonedVoice | None, steps: int, seed: int
) -> Run:
    """Find the codes of the text in so many steps."""
    begin = process_time()
    (codes,) = model.codes(
        options.text,
        language=options.language,
        voice=voice,
        duration=options.seconds,
        steps=steps,
        seed=seed,
        position_temperature=options.position_temp,
    )
    return Run(codes, process_time() - begin)


def nearness(codec: OmniVoiceCodec, codes: Codes, wanted: Codes) -> Nearness:
    """Compare two runs of the same length."""
    equal = codes == wanted
    vectors, expected = (codec.decode_stages(one)["quantized"] for one in (codes, wanted))
    spread = np.linalg.norm(expected - expected.mean(axis=0))
    return Nearness(
        float(equal.mean()), float(equal[:, 0].mean()), float(np.linalg.norm(vectors - expected) / spread)
    )


def table(rows: dict[str, list[tuple[Run, Nearness]]], options: argparse.Namespace) -> str:
    """Return a Markdown table of the means."""
    lines = [
        f"| steps | processor s for {options.seconds:g} s | codes equal | of the first book | distance of vectors |",
        "|---|---|---|---|---|",
    ]
    for name, runs in rows.items():
        seconds = mean(run.seconds for run, _ in runs)
        found = [near for _, near in runs]
        lines.append(
            f"| {name} | {seconds:.1f} | {100 * mean(near.equal for near in found):.1f} %"
            f" | {100 * mean(near.equal_first for near in found):.1f} %"
            f" | {mean(near.distance for near in found):.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
