#!/usr/bin/env python3
"""Write a random talker and a random codec of the published sizes as GGUF files, for timing.

    python benchmarks/make_model.py --size 0.6b --type q8_0 --out models/random

Names, shapes, types and metadata are those of converted checkpoints; the values are noise and never end an utterance,
so `--max-new` fixes its length. Takes seconds: weights are made in their final storage (random_weights.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from codec_layout import codec_metadata, codec_tensors
from gguf import GGMLQuantizationType, GGUFWriter, quant_shape_to_byte_shape
from random_weights import RandomTensor, WeightPatterns
from synthetic_tokenizer import synthetic_tokenizer
from talker_layout import TALKERS, TalkerSizes, talker_metadata, talker_tensors
from texts import SENTENCE, words

from ggtts.core.convert.plan import Metadata
from ggtts.core.convert.quantize_policy import Variant, tensor_type, variant
from ggtts.core.formats.gguf_types import FILE_TYPE_KEY, FILE_TYPE_NUMBERS

TYPES = ("f32", "f16", "bf16", "q8_0", "q4_k_m")
Q4_K_M = Variant("Q4_K_M", GGMLQuantizationType.Q4_K, GGMLQuantizationType.Q6_K)


def main() -> None:
    """Parse the options and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("models/random"), help="folder to write to")
    parser.add_argument("--size", choices=sorted(TALKERS), default="0.6b", help="talker size")
    parser.add_argument("--type", choices=TYPES, default="q8_0", help="type of the talker's matrices")
    parser.add_argument(
        "--codec-type", choices=TYPES, help="type of the codec's matrices (default: as --type)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    talker_type, codec_type = _variant(options.type), _variant(options.codec_type or options.type)
    talker = options.out / f"random-talker-{options.size}-base-{talker_type.name}.gguf"
    codec = options.out / f"random-tokenizer-12hz-{codec_type.name}.gguf"
    write_talker(talker, TALKERS[options.size], talker_type, options.seed)
    write_codec(codec, codec_type, options.seed)
    for path in (talker, codec):
        print(f"{path}  {path.stat().st_size / 2**20:.0f} MiB")


def write_talker(path: Path, sizes: TalkerSizes, target: Variant, seed: int) -> None:
    """Write a talker of these sizes."""
    metadata = talker_metadata(sizes, synthetic_tokenizer(words(SENTENCE)))
    name = f"Qwen3-TTS-12Hz-{sizes.label}-base"
    write_random_gguf(path, "qwen3-tts", name, metadata, talker_tensors(sizes), target, seed)


def write_codec(path: Path, target: Variant, seed: int) -> None:
    """Write a codec."""
    name = "Qwen3-TTS-Tokenizer-12Hz"
    write_random_gguf(path, "qwen3-tts-tokenizer", name, codec_metadata(), codec_tensors(), target, seed)


def write_random_gguf(
    path: Path,
    architecture: str,
    name: str,
    metadata: Metadata,
    tensors: Iterable[RandomTensor],
    target: Variant,
    seed: int,
) -> None:
    """Write a GGUF file of random tensors with the types that `quantize` would give them."""
    patterns = WeightPatterns(seed)
    writer = GGUFWriter(path, architecture)
    writer.add_string("general.name", name)
    for entry in metadata.entries:
        writer.add_key_value(entry.key, entry.value, entry.kind, entry.element)
    if target.base is not GGMLQuantizationType.F32:
        writer.add_uint32("general.quantization_version", 2)
        writer.add_uint32(FILE_TYPE_KEY, FILE_TYPE_NUMBERS[target.name])
    for tensor in tensors:
        kind = tensor_type(tensor.name, tensor.shape, target)
        shape = quant_shape_to_byte_shape(tensor.shape, kind)
        writer.add_tensor(tensor.name, patterns.storage(tensor, kind), raw_shape=shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _variant(name: str) -> Variant:
    return Q4_K_M if name == "q4_k_m" else variant(name)


if __name__ == "__main__":
    main()
