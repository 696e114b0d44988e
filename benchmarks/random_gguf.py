"""GGUF files of random tensors, typed as `quantize` would type them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gguf import GGMLQuantizationType, GGUFWriter, quant_shape_to_byte_shape
from random_weights import RandomTensor, WeightPatterns

from ggtts.core.convert.plan import MetadataEntry
from ggtts.core.convert.quantize_policy import K_VARIANTS, VARIANTS, Variant, tensor_type
from ggtts.core.formats.gguf_types import FILE_TYPE_KEY, FILE_TYPE_NUMBERS

MIXTURES = {name.lower(): mixture for name, mixture in (VARIANTS | {"Q4_K_M": K_VARIANTS["Q4_K_M"]}).items()}
"""The types that random files can have, by the name that the options use."""


def write_random_gguf(
    path: Path,
    architecture: str,
    name: str,
    metadata: Iterable[MetadataEntry],
    tensors: Iterable[RandomTensor],
    target: Variant,
    seed: int,
    layers: int = 0,
) -> None:
    """Write a GGUF file of random tensors.

    Args:
        path: the file.
        architecture: its `general.architecture`.
        name: its `general.name`.
        metadata: its other keys.
        tensors: what it holds, in this order.
        target: the types; see `tensor_type`.
        seed: of the values.
        layers: transformer blocks of the file, where some mixtures prefer the first and last ones.
    """
    patterns = WeightPatterns(seed)
    writer = GGUFWriter(path, architecture)
    writer.add_string("general.name", name)
    for entry in metadata:
        writer.add_key_value(entry.key, entry.value, entry.kind, entry.element)
    if target.base is not GGMLQuantizationType.F32:
        writer.add_uint32("general.quantization_version", 2)
        writer.add_uint32(FILE_TYPE_KEY, FILE_TYPE_NUMBERS[target.name])
    for tensor in tensors:
        kind = tensor_type(tensor.name, tensor.shape, target, layers=layers)
        shape = quant_shape_to_byte_shape(tensor.shape, kind)
        writer.add_tensor(tensor.name, patterns.storage(tensor, kind), raw_shape=shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
