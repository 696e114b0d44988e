"""Which type each tensor of a GGUF file gets, by its name and shape alone.

The rules are those of the `quantize` of qwentts.cpp and omnivoice.cpp, so that files of both programs hold
the same types: one-dimensional tensors, snake parameters, vector-quantiser tensors and a few last layers
stay as they are, embedding tables get the variant's embedding type, everything else its base type, and a
tensor whose rows do not divide into the type's blocks becomes F16 instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from ..errors import UsageError

KEPT_NAMES = (
    ".snake.alpha",
    ".snake.beta",
    ".act1.alpha",
    ".act1.beta",
    ".act2.alpha",
    ".act2.beta",
    "tok_enc.vq_",
    "tok_dec.vq_",
    "spk_enc.fc.weight",
    ".snake1.alpha",
    ".snake2.alpha",
    "quantizer.quantizers",
)
KEPT_EXACTLY = frozenset({"fc.weight", "fc2.weight"})
EMBEDDING_NAMES = (
    ".codec_embd",
    ".text_embd",
    "token_embd",
    "embed_tokens.weight",
    "audio_embeddings.weight",
)


RAISED_NAMES = ("v_proj.weight", "down_proj.weight")
"""Tensors that get a better type in some layers. OmniVoice's files have these names, Qwen3-TTS's have none of them."""

OUTPUT_NAME = "o_proj.weight"
FIRST_LAYERS = 4


class Layers(Enum):
    """Which layers get a better type: none, the first four, the first and last and every third between, or all (then
    attention outputs as well)."""

    NONE = "none"
    FIRST = "first"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class Variant:
    """A named mixture: the type of most matrices, of embedding tables, and of `RAISED_NAMES` in some layers."""

    name: str
    base: GGMLQuantizationType
    embedding: GGMLQuantizationType
    raised: GGMLQuantizationType | None = None
    layers: Layers = Layers.NONE


def _uniform(kind: GGMLQuantizationType) -> Variant:
    return Variant(kind.name, kind, kind)


VARIANTS: dict[str, Variant] = {
    kind.name: _uniform(kind)
    for kind in (
        GGMLQuantizationType.F32,
        GGMLQuantizationType.F16,
        GGMLQuantizationType.BF16,
        GGMLQuantizationType.Q8_0,
    )
}


_KIND = GGMLQuantizationType

K_VARIANTS: dict[str, Variant] = {
    mixture.name: mixture
    for mixture in (
        Variant("Q2_K", _KIND.Q2_K, _KIND.Q6_K, _KIND.Q4_K, Layers.FIRST),
        Variant("Q3_K_S", _KIND.Q3_K, _KIND.Q6_K),
        Variant("Q3_K_M", _KIND.Q3_K, _KIND.Q6_K, _KIND.Q5_K, Layers.SOME),
        Variant("Q3_K_L", _KIND.Q3_K, _KIND.Q6_K, _KIND.Q5_K, Layers.ALL),
        Variant("Q4_K_S", _KIND.Q4_K, _KIND.Q6_K, _KIND.Q5_K, Layers.FIRST),
        Variant("Q4_K_M", _KIND.Q4_K, _KIND.Q6_K, _KIND.Q6_K, Layers.SOME),
        Variant("Q5_K_S", _KIND.Q5_K, _KIND.Q6_K),
        Variant("Q5_K_M", _KIND.Q5_K, _KIND.Q6_K, _KIND.Q6_K, Layers.SOME),
        Variant("Q6_K", _KIND.Q6_K, _KIND.Q6_K),
    )
}
"""The mixtures of the C++ `quantize` besides `VARIANTS`."""

QUANTIZE_VARIANTS = {name: VARIANTS[name] for name in ("BF16", "Q8_0")} | K_VARIANTS
"""Everything that the C++ `quantize` accepts."""


def variant(name: str) -> Variant:
    """Return the variant of that name, in any case ("q8_0"); UsageError names the known ones."""
    try:
        return VARIANTS[name.upper()]
    except KeyError:
        raise UsageError(f"unknown type {name!r} (accepted: {', '.join(VARIANTS)})") from None


def tensor_type(
    name: str,
    shape: tuple[int, ...],
    target: Variant,
    stored: GGMLQuantizationType = GGMLQuantizationType.F32,
    layers: int = 0,
) -> GGMLQuantizationType:
    """Return the type that tensor `name` gets in a file of variant `target`.

    `shape` is in NumPy order (rows are the last axis); `stored` is the type it has now, which kept tensors
    keep. `layers` is the `block_count` of the file's architecture, 0 where it states none.
    """
    if _is_vector(shape) or name in KEPT_EXACTLY or any(part in name for part in KEPT_NAMES):
        return stored
    wanted = target.base
    if any(part in name for part in EMBEDDING_NAMES):
        wanted = target.embedding
    elif target.raised is not None and _is_raised(name, target.layers, layers):
        wanted = target.raised
    block = GGML_QUANT_SIZES[wanted][0]
    return wanted if shape[-1] % block == 0 else GGMLQuantizationType.F16


def _is_raised(name: str, wanted: Layers, layers: int) -> bool:
    names = (*RAISED_NAMES, OUTPUT_NAME) if wanted is Layers.ALL else RAISED_NAMES
    found = re.search(r"layers\.(\d+)", name)
    if found is None or not any(part in name for part in names):
        return False
    layer = int(found[1])
    if wanted is Layers.FIRST:
        return layer < FIRST_LAYERS
    if wanted is Layers.SOME:
        return layer < layers // 9 or layer >= layers - layers // 7 or layer % 3 == 0
    return wanted is Layers.ALL


def _is_vector(shape: tuple[int, ...]) -> bool:
    """Whether GGML counts fewer than two dimensions: its outermost ones, the first here, do not count when
    1."""
    dimensions = list(shape)
    while dimensions and dimensions[0] == 1:
        dimensions.pop(0)
    return len(dimensions) < 2
