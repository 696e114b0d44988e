"""Which type each tensor of a GGUF file gets, by its name and shape alone.

The rules are those of the `quantize` of qwentts.cpp and omnivoice.cpp, so that files of both programs hold
the same types: one-dimensional tensors, snake parameters, vector-quantiser tensors and a few last layers
stay as they are, embedding tables get the variant's embedding type, everything else its base type, and a
tensor whose rows do not divide into the type's blocks becomes F16 instead.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Variant:
    """A named mixture: the type of most matrices and the type of embedding tables."""

    name: str
    base: GGMLQuantizationType
    embedding: GGMLQuantizationType


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
) -> GGMLQuantizationType:
    """Return the type that tensor `name` gets in a file of variant `target`.

    `shape` is in NumPy order (rows are the last axis); `stored` is the type it has now, which kept tensors
    keep.
    """
    if _is_vector(shape) or name in KEPT_EXACTLY or any(part in name for part in KEPT_NAMES):
        return stored
    wanted = target.embedding if any(part in name for part in EMBEDDING_NAMES) else target.base
    block = GGML_QUANT_SIZES[wanted][0]
    return wanted if shape[-1] % block == 0 else GGMLQuantizationType.F16


def _is_vector(shape: tuple[int, ...]) -> bool:
    """Whether GGML counts fewer than two dimensions: its outermost ones, the first here, do not count when
    1."""
    dimensions = list(shape)
    while dimensions and dimensions[0] == 1:
        dimensions.pop(0)
    return len(dimensions) < 2
