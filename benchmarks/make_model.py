#!/usr/bin/env python3
"""Write a random talker and a random codec of the published sizes as GGUF files, for timing.

    python benchmarks/make_model.py --size 0.6b --type q8_0 --out models/random

Names, shapes, types and metadata are those of converted checkpoints; the values are noise and never end an utterance,
so `--max-new` fixes its length. Takes seconds: weights are made in their final storage (random_weights.py).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from codec_layout import codec_metadata, codec_tensors
from random_gguf import MIXTURES, write_random_gguf
from synthetic_tokenizer import synthetic_tokenizer
from talker_layout import TALKERS, TalkerSizes, talker_metadata, talker_tensors
from texts import SENTENCE, words

from ggtts.core.convert.quantize_policy import Variant


def main() -> None:
    """Parse the options and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("models/random"), help="folder to write to")
    parser.add_argument("--size", choices=sorted(TALKERS), default="0.6b", help="talker size")
    parser.add_argument("--type", choices=MIXTURES, default="q8_0", help="type of the talker's matrices")
    parser.add_argument(
        "--codec-type", choices=MIXTURES, help="type of the codec's matrices (default: as --type)"
    )
    parser.add_argument(
        "--layers", type=int, help="of the talker, for simulated_device.py (default: as published)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    talker_type, codec_type = MIXTURES[options.type], MIXTURES[options.codec_type or options.type]
    talker = options.out / f"random-talker-{options.size}-base-{talker_type.name}.gguf"
    codec = options.out / f"random-tokenizer-12hz-{codec_type.name}.gguf"
    sizes = TALKERS[options.size]
    if options.layers:
        sizes = replace(sizes, talker=replace(sizes.talker, layers=options.layers))
    write_talker(talker, sizes, talker_type, options.seed)
    write_codec(codec, codec_type, options.seed)
    for path in (talker, codec):
        print(f"{path}  {path.stat().st_size / 2**20:.0f} MiB")


def write_talker(path: Path, sizes: TalkerSizes, target: Variant, seed: int) -> None:
    """Write a talker of these sizes."""
    metadata = talker_metadata(sizes, synthetic_tokenizer(words(SENTENCE)))
    name = f"Qwen3-TTS-12Hz-{sizes.label}-base"
    write_random_gguf(path, "qwen3-tts", name, metadata.entries, talker_tensors(sizes), target, seed)


def write_codec(path: Path, target: Variant, seed: int) -> None:
    """Write a codec."""
    name = "Qwen3-TTS-Tokenizer-12Hz"
    write_random_gguf(
        path, "qwen3-tts-tokenizer", name, codec_metadata().entries, codec_tensors(), target, seed
    )


if __name__ == "__main__":
    main()
