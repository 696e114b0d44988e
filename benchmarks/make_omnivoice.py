#!/usr/bin/env python3
"""Write a random OmniVoice of the published sizes for timing: a checkpoint as published, and its GGUF files.

    python benchmarks/make_omnivoice.py --type q8_0 --type q4_k_m --out models/random

Metadata, names and types are those that the converter and `quantize` would give. The values of float32 files are those
of the checkpoint; quantised ones are random blocks of the same deviation, which takes seconds (random_weights.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from omnivoice_checkpoint import write_checkpoint
from omnivoice_layout import LAYERS, base_tensors, codec_tensors
from random_gguf import MIXTURES, write_random_gguf

from ggtts.core.convert.omnivoice_base import NESTED_CODEC, plan_base
from ggtts.core.convert.omnivoice_codec import plan_codec
from ggtts.core.convert.plan import ModelPlan
from ggtts.core.convert.quantize_policy import Variant


def main() -> None:
    """Parse the options and write everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("models/random"), help="folder to write to")
    parser.add_argument(
        "--type",
        choices=MIXTURES,
        action="append",
        help="type of the language model's matrices; may be repeated (default: q8_0)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    options = parser.parse_args()

    folder = options.out / "OmniVoice"
    write_checkpoint(folder, options.seed)
    print(folder)
    for name in options.type or ["q8_0"]:
        write_base(options.out, plan_base(folder), MIXTURES[name], options.seed)
    write_codec(options.out, plan_codec(folder / NESTED_CODEC), options.seed)


def write_base(out: Path, plan: ModelPlan, target: Variant, seed: int) -> None:
    """Write the language model with the metadata of a plan."""
    tensors = {tensor.name: tensor for tensor in base_tensors()}
    path = out / f"random-{plan.stem}-{target.name}.gguf"
    listed = [tensors[planned.name] for planned in plan.tensors]
    write_random_gguf(path, plan.architecture, plan.name, plan.metadata, listed, target, seed, LAYERS)
    _tell(path)


def write_codec(out: Path, plan: ModelPlan, seed: int) -> None:
    """Write the codec in float32, as the converter does."""
    tensors = {tensor.name: tensor for tensor in codec_tensors()}
    target = MIXTURES["f32"]
    path = out / f"random-{plan.stem}-{target.name}.gguf"
    listed = [tensors[planned.name] for planned in plan.tensors]
    write_random_gguf(path, plan.architecture, plan.name, plan.metadata, listed, target, seed)
    _tell(path)


def _tell(path: Path) -> None:
    print(f"{path}  {path.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
