"""What is unusual about a file that can be used all the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..formats.gguf_types import FILE_TYPE_KEY, FILE_TYPE_NUMBERS
from ..formats.kinds import is_text, quoted
from ..formats.layout import unknown_names
from ..text.tokenizer import MERGES_KEY, TOKENS_KEY, TYPES_KEY, lost_merges
from .families import Description, Header

SHOWN = 3
END_OF_TEXT_KEY = "tokenizer.ggml.eos_token_id"
CODEBOOK_WIDTH_KEY = "qwen3-tts-tokenizer.decoder.codebook_dim_internal"
FIRST_CODEBOOK = "tok_dec.vq_first.0.codebook"
PLAIN_TYPES = {"f32", "f16", "bf16"}
KEPT_PARTS = ("tok_enc.vq_", "tok_dec.vq_", "quantizer.quantizers")
EXPECTED_KEYS = {
    "qwen3-tts": (
        "qwen3-tts.model_size",
        "qwen3-tts.talker.context_length",
        "qwen3-tts.codec.language_names",
        "generation.temperature",
        "generation.subtalker_top_k",
        "tokenizer.ggml.token_type",
    ),
    "omnivoice-lm": ("omnivoice-lm.context_length",),
}
"""Keys that are read where they are there, and that converters write."""


def find_oddities(header: Header, described: Description) -> Iterator[str]:
    """Yield one line for each thing that is unusual."""
    yield from _file_type(header)
    yield from _tokenizer(header.metadata)
    yield from _hard_coded(header)
    yield from _missing_keys(header.metadata)
    yield from _strange_values(header.metadata)
    yield from _tensors(header, described)


def _file_type(header: Header) -> Iterator[str]:
    stated = header.metadata.get(FILE_TYPE_KEY)
    quantised = {header.dtype(name) for name in header.tensors} - PLAIN_TYPES
    if isinstance(stated, str):
        yield (
            f"{FILE_TYPE_KEY} is the text {quoted(stated)}, as qwentts.cpp and omnivoice.cpp write it;"
            " other programs expect a number"
        )
    elif stated is None and quantised:
        yield f"{FILE_TYPE_KEY} is missing, though tensors are quantised ({', '.join(sorted(quantised))})"
    elif stated is not None and stated not in FILE_TYPE_NUMBERS.values():
        yield f"{FILE_TYPE_KEY} is {quoted(stated)}, which is no known type"


def _tokenizer(metadata: Mapping[str, Any]) -> Iterator[str]:
    tokens, merges = metadata.get(TOKENS_KEY), metadata.get(MERGES_KEY)
    if tokens is None or merges is None:
        return
    lost = lost_merges(tokens, metadata.get(TYPES_KEY), merges)
    if lost:
        yield (
            f"the merges that begin with '#' are missing ({lost} tokens cannot be reached): text with runs of '#'"
            " is read differently; converting the checkpoint again with ./convert.py restores them"
        )


def _hard_coded(header: Header) -> Iterator[str]:
    metadata = header.metadata
    end, tokens = metadata.get(END_OF_TEXT_KEY), metadata.get(TOKENS_KEY, [])
    if isinstance(end, int) and not (0 <= end < len(tokens) and "endoftext" in str(tokens[end])):
        yield f"{END_OF_TEXT_KEY} is {end}, which is not <|endoftext|> here: a constant of the converter"
    width = metadata.get(CODEBOOK_WIDTH_KEY)
    if width is not None and FIRST_CODEBOOK in header and header.shape(FIRST_CODEBOOK)[-1] != width:
        yield (
            f"{CODEBOOK_WIDTH_KEY} is {width}, but codebooks are {header.shape(FIRST_CODEBOOK)[-1]} wide:"
            " a constant of the converter"
        )


def _missing_keys(metadata: Mapping[str, Any]) -> Iterator[str]:
    expected = EXPECTED_KEYS.get(str(metadata.get("general.architecture")), ())
    missing = [key for key in expected if key not in metadata]
    if missing:
        yield f"keys that converters write are missing: {', '.join(missing)}"


def _strange_values(metadata: Mapping[str, Any]) -> Iterator[str]:
    for key, value in metadata.items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(item, float) and not math.isfinite(item) for item in values):
            yield f"{quoted(key)} holds a number that is not finite"
        elif any(isinstance(item, str) and not is_text(item) for item in (key, *values)):
            yield f"{quoted(key)} holds text that is not UTF-8"


def _tensors(header: Header, described: Description) -> Iterator[str]:
    known = [name for name in header.tensors if not name.endswith("output_proj.weight")]
    unknown = unknown_names(known, *described.layouts)
    if unknown:
        yield f"{len(unknown)} tensors are of no use here: {_some(unknown)}"
    rough = [
        name
        for name in header.tensors
        if any(part in name for part in KEPT_PARTS) and header.dtype(name) not in PLAIN_TYPES
    ]
    if rough:
        yield f"{len(rough)} tensors of the codebooks are quantised, which changes every code: {_some(rough)}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ..."
