"""A random OmniVoice checkpoint of the published sizes in its Hugging Face layout.

The official package loads it, and the converter's plan of it is the metadata of the random GGUF files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType
from omnivoice_layout import (
    BASE_CONFIG,
    CODEBOOKS,
    CODEC_CONFIG,
    PREPROCESSOR_CONFIG,
    base_tensors,
    codec_tensors,
)
from random_weights import RandomTensor, WeightPatterns
from synthetic_tokenizer import ADDED_TOKENS, LEARNT_TOKENS, SyntheticTokenizer, complete_tokenizer
from texts import LONGER_TEXT, words

from ggtts.core.convert.omnivoice_base import NESTED_CODEC
from ggtts.core.convert.omnivoice_codec import FOLDED_FORMS, POSITION_CONV
from ggtts.core.formats.omnivoice import SPECIAL_TOKENS
from ggtts.core.text.tokenizer import QWEN2_PATTERN

ITEM_BYTES = {"F32": 4, "I64": 8}
POSITION_WEIGHT = f"{POSITION_CONV}.weight"
QWEN3_ADDED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def write_checkpoint(folder: Path, seed: int) -> None:
    """Write the language model to a folder and the codec to its subfolder, both in float32."""
    codec = folder / NESTED_CODEC
    codec.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", BASE_CONFIG)
    tokenizer = complete_tokenizer(words(LONGER_TEXT), _added_tokens())
    write_json(folder / "tokenizer.json", _tokenizer_json(tokenizer))
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    )
    write_safetensors(folder / "model.safetensors", [first_rows(), *stored(base_tensors(), seed)])
    write_json(codec / "config.json", CODEC_CONFIG)
    write_json(codec / "preprocessor_config.json", PREPROCESSOR_CONFIG)
    write_safetensors(codec / "model.safetensors", [*stored(codec_tensors(), seed)])


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a safetensors file; `values` makes its array when it is written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: Callable[[], npt.NDArray[Any]]

    @property
    def size(self) -> int:
        """Bytes."""
        return ITEM_BYTES[self.dtype] * prod(self.shape)


def write_safetensors(path: Path, tensors: Sequence[StoredTensor]) -> None:
    """Write a safetensors file: length of the header, header, values (little-endian)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for tensor in tensors:
        end = begin + tensor.size
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write(np.ascontiguousarray(tensor.values()).data)


def stored(tensors: Iterable[RandomTensor], seed: int) -> Iterator[StoredTensor]:
    """Yield what random tensors are stored as: HuBERT's positional convolution as length per tap and direction."""
    patterns = WeightPatterns(seed)
    for tensor in tensors:
        values = partial(_values, patterns, tensor)
        if tensor.name == POSITION_WEIGHT:
            length, direction = (f"{POSITION_CONV}.{part}" for part in FOLDED_FORMS[0])
            taps = (1, 1, tensor.shape[-1])
            yield StoredTensor(length, "F32", taps, partial(_lengths, patterns, tensor))
            yield StoredTensor(direction, "F32", tensor.shape, values)
        else:
            yield StoredTensor(tensor.name, "F32", tensor.shape, values)


def first_rows() -> StoredTensor:
    """Return the first row of each codebook in the joint table. The package does not work without it."""
    offsets = np.arange(CODEBOOKS, dtype=np.int64) * BASE_CONFIG["audio_vocab_size"]
    return StoredTensor("codebook_layer_offsets", "I64", offsets.shape, lambda: offsets)


def _values(patterns: WeightPatterns, tensor: RandomTensor) -> npt.NDArray[np.float32]:
    storage = patterns.storage(tensor, GGMLQuantizationType.F32)
    return storage.view(np.float32).reshape(tensor.shape)


def _lengths(patterns: WeightPatterns, tensor: RandomTensor) -> npt.NDArray[np.float32]:
    squares = np.square(_values(patterns, tensor))
    norms: npt.NDArray[np.float32] = np.sqrt(squares.sum(axis=(0, 1))).astype(np.float32)
    return norms


def _added_tokens() -> dict[int, str]:
    """Return the added tokens that are used: those of Qwen3 come first, OmniVoice's last."""
    first_own = LEARNT_TOKENS + ADDED_TOKENS - len(SPECIAL_TOKENS)
    own = dict(enumerate(SPECIAL_TOKENS.values(), first_own))
    return dict(enumerate(QWEN3_ADDED, LEARNT_TOKENS)) | own


def _tokenizer_json(tokenizer: SyntheticTokenizer) -> dict[str, Any]:
    """Return the file of the tokenizers package for a byte-level BPE tokenizer with Qwen2's rules."""
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = list(enumerate(tokenizer.tokens))[LEARNT_TOKENS:]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": token, **flags, "special": True} for number, token in added
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_only]},
        "post_processor": bytes_only,
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: number for number, token in enumerate(tokenizer.tokens[:LEARNT_TOKENS])},
            "merges": [merge.split(" ") for merge in tokenizer.merges],
        },
    }
