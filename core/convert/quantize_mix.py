"""The types of a quantised file: what matters most gets more bits.

Four things are known of these models, and each is one rule here:

- The codec's encoder decides which codes a recording becomes. With its transformer in Q4_K about half of the codes are
  others than in float32, with Q8_0 one in ten: it stays Q8_0. Its decoder gets one step more than the type says.
- Codes come out of the heads and go back in through the code tables, 16 times per frame; a wrong one is heard and is
  the context of all that follow. Both are small and get the most bits. OmniVoice's table is read by row on the device,
  which CUDA does for Q8_0 and not for K-quants.
- The code predictor is run 15 times per frame, each time on what it said before: its errors add up within a frame.
- In every transformer the value and down projections, and the first and last layers, carry errors furthest. The names
  and the choice of layers follow llama.cpp's mixtures (`Q4_K_M` and the like), the sizes those of these models.

Codebooks and projections of the vector quantisers, the speaker encoder and everything of one dimension stay as they
are: F32. Kernels of convolutions have rows of 1 to 16 values, which are no blocks: F16, or BF16 in a BF16 file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from ..formats.omnivoice import BASE_ARCHITECTURE
from ..formats.omnivoice import CODEC_ARCHITECTURE as OMNIVOICE_CODEC_ARCHITECTURE
from ..formats.qwen import CODEC_ARCHITECTURE, TALKER_ARCHITECTURE

_K = GGMLQuantizationType

ARCHITECTURES = (TALKER_ARCHITECTURE, CODEC_ARCHITECTURE, BASE_ARCHITECTURE, OMNIVOICE_CODEC_ARCHITECTURE)

SMALLER_BLOCKS: Mapping[GGMLQuantizationType, GGMLQuantizationType] = {
    _K.Q2_K: _K.IQ4_NL,
    _K.Q3_K: _K.IQ4_NL,
    _K.Q4_K: _K.Q5_0,
    _K.Q5_K: _K.Q5_1,
    _K.Q6_K: _K.Q8_0,
}
"""Instead of a type with blocks of 256 values, for rows that 32 divides and 256 does not."""


class Part(Enum):
    """What a tensor is to its model."""

    VECTOR = "vector"
    KEPT = "kept"
    KERNEL = "convolution"
    TEXT_TABLE = "text embedding"
    ENDS = "codes in and out"
    LAYER = "layer"
    PREDICTOR = "code predictor"
    ENCODER = "codec encoder"
    DECODER = "codec decoder"


class Where(Enum):
    """In which layers value and down projections get more bits."""

    EDGES = "first and last eighth"
    THIRDS = "these and every third"
    ALL = "all"


@dataclass(frozen=True)
class Place:
    """A tensor in its model. `sensitive` is a value or down projection, `output` an attention output."""

    part: Part
    layer: int = 0
    layers: int = 1
    sensitive: bool = False
    output: bool = False

    def chosen(self, where: Where) -> bool:
        """Whether this layer is among those that get more bits."""
        edge = max(self.layers // 8, 1)
        if where is Where.ALL or self.layer < edge or self.layer >= self.layers - edge:
            return True
        return where is Where.THIRDS and (self.layer - edge) % 3 == 2


@dataclass(frozen=True)
class Recipe:
    """The types of a mixture.

    Attributes:
        base: most matrices of the layers.
        raised: value and down projections of the layers `where` says.
        lifted: value and down projections of all other layers.
        output: attention outputs.
        predictor: matrices of the code predictor; `predictor_raised` its value and down projections.
        ends: heads, tables of codes, and projections before and between the transformers.
        text_table: embeddings of text tokens.
        encoder, decoder: matrices of the codec.
        kernel: convolutions.
    """

    base: GGMLQuantizationType
    raised: GGMLQuantizationType
    where: Where
    lifted: GGMLQuantizationType
    output: GGMLQuantizationType
    predictor: GGMLQuantizationType
    predictor_raised: GGMLQuantizationType
    ends: GGMLQuantizationType
    text_table: GGMLQuantizationType
    encoder: GGMLQuantizationType
    decoder: GGMLQuantizationType
    kernel: GGMLQuantizationType = _K.F16

    def kind(self, place: Place) -> GGMLQuantizationType:
        """Return the type of a tensor that is not kept."""
        if place.part is Part.LAYER:
            return self._of_layer(place)
        if place.part is Part.PREDICTOR:
            return self.predictor_raised if place.sensitive else self.predictor
        return {
            Part.KERNEL: self.kernel,
            Part.TEXT_TABLE: self.text_table,
            Part.ENDS: self.ends,
            Part.ENCODER: self.encoder,
            Part.DECODER: self.decoder,
        }[place.part]

    def _of_layer(self, place: Place) -> GGMLQuantizationType:
        if place.sensitive:
            return self.raised if place.chosen(self.where) else self.lifted
        return self.output if place.output else self.base


def _uniform(kind: GGMLQuantizationType, kernel: GGMLQuantizationType = _K.F16) -> Recipe:
    return Recipe(kind, kind, Where.ALL, kind, kind, kind, kind, kind, kind, kind, kind, kernel)


def _mix(
    layers: str,
    where: Where,
    predictor: str,
    ends: GGMLQuantizationType,
    text: GGMLQuantizationType,
    decoder: str,
) -> Recipe:
    """`layers` names base, raised, lifted, output; `predictor` its matrices and its value and down projections."""
    base, raised, lifted, output = (GGMLQuantizationType[name] for name in layers.split())
    matrices, sensitive = (GGMLQuantizationType[name] for name in predictor.split())
    return Recipe(
        base,
        raised,
        where,
        lifted,
        output,
        matrices,
        sensitive,
        ends,
        text,
        _K.Q8_0,
        GGMLQuantizationType[decoder],
    )


RECIPES: Mapping[str, Recipe] = {
    "BF16": _uniform(_K.BF16, _K.BF16),
    "F16": _uniform(_K.F16),
    "Q8_0": _uniform(_K.Q8_0),
    "Q6_K": _mix("Q6_K Q8_0 Q6_K Q6_K", Where.EDGES, "Q6_K Q8_0", _K.Q8_0, _K.Q6_K, "Q8_0"),
    "Q5_K_M": _mix("Q5_K Q6_K Q6_K Q5_K", Where.THIRDS, "Q6_K Q8_0", _K.Q8_0, _K.Q6_K, "Q6_K"),
    "Q5_K_S": _mix("Q5_K Q6_K Q5_K Q5_K", Where.EDGES, "Q5_K Q6_K", _K.Q8_0, _K.Q6_K, "Q6_K"),
    "Q4_K_M": _mix("Q4_K Q6_K Q5_K Q4_K", Where.THIRDS, "Q5_K Q6_K", _K.Q8_0, _K.Q6_K, "Q6_K"),
    "Q4_K_S": _mix("Q4_K Q5_K Q4_K Q4_K", Where.EDGES, "Q4_K Q6_K", _K.Q8_0, _K.Q4_K, "Q6_K"),
    "Q3_K_L": _mix("Q3_K Q5_K Q5_K Q5_K", Where.ALL, "Q5_K Q6_K", _K.Q8_0, _K.Q4_K, "Q5_K"),
    "Q3_K_M": _mix("Q3_K Q5_K Q4_K Q4_K", Where.THIRDS, "Q4_K Q6_K", _K.Q8_0, _K.Q4_K, "Q5_K"),
    "Q3_K_S": _mix("Q3_K Q4_K Q3_K Q3_K", Where.EDGES, "Q4_K Q5_K", _K.Q6_K, _K.Q4_K, "Q5_K"),
    "Q2_K": _mix("Q2_K Q4_K Q3_K Q3_K", Where.THIRDS, "Q4_K Q5_K", _K.Q6_K, _K.Q4_K, "Q5_K"),
    "Q5_0": _mix("Q5_0 Q8_0 Q5_0 Q5_0", Where.EDGES, "Q5_0 Q8_0", _K.Q8_0, _K.Q5_0, "Q8_0"),
    "Q4_0": _mix("Q4_0 Q5_0 Q4_0 Q4_0", Where.EDGES, "Q4_0 Q5_0", _K.Q8_0, _K.Q5_0, "Q8_0"),
    "IQ4_NL": _mix("IQ4_NL Q5_K IQ4_NL IQ4_NL", Where.EDGES, "IQ4_NL Q6_K", _K.Q8_0, _K.Q5_K, "Q8_0"),
}
"""By name of the file type. Every mixture is one step of its size better where a step is heard."""

_KEPT_PARTS = ("spk_enc.", "tok_enc.vq_", "tok_dec.vq_", "quantizer.quantizers")
_KEPT_ENDINGS = (".alpha", ".beta")
_KEPT_NAMES = frozenset({"fc.weight", "fc2.weight"})
_STACKS: tuple[tuple[str, re.Pattern[str], Part], ...] = (
    (TALKER_ARCHITECTURE, re.compile(r"talker\.blk\.(\d+)\.(\w+)\.weight"), Part.LAYER),
    (TALKER_ARCHITECTURE, re.compile(r"code_pred\.blk\.(\d+)\.(\w+)\.weight"), Part.PREDICTOR),
    (BASE_ARCHITECTURE, re.compile(r"llm\.layers\.(\d+)\.\w+\.(\w+)\.weight"), Part.LAYER),
)
_TEXT_TABLES = frozenset({"talker.text_embd.weight", "llm.embed_tokens.weight"})
_SENSITIVE = frozenset({"attn_v", "ffn_down", "v_proj", "down_proj"})
_OUTPUTS = frozenset({"attn_output", "o_proj"})
_KERNEL_NAME = re.compile(r"\bconv\d?\.")
"""A kernel with one output, whose third dimension a tool may have dropped."""
_ENCODERS = ("tok_enc.", "acoustic_encoder.", "encoder_semantic.", "semantic_model.")


def locate(architecture: str, name: str, dimensions: tuple[int, ...], layers: int) -> Place:
    """Return what a tensor is to its model.

    Args:
        architecture: one of `ARCHITECTURES`.
        name: of the tensor.
        dimensions: fastest first.
        layers: of the transformer that the tensor would be in.
    """
    if _counted(dimensions) < 2:
        return Place(Part.VECTOR)
    if name in _KEPT_NAMES or name.endswith(_KEPT_ENDINGS) or any(part in name for part in _KEPT_PARTS):
        return Place(Part.KEPT)
    for owner, pattern, part in _STACKS:
        found = pattern.fullmatch(name) if owner == architecture else None
        if found:
            kind = found[2]
            return Place(part, int(found[1]), max(layers, 1), kind in _SENSITIVE, kind in _OUTPUTS)
    if name in _TEXT_TABLES:
        return Place(Part.TEXT_TABLE)
    if architecture in (TALKER_ARCHITECTURE, BASE_ARCHITECTURE):
        return Place(Part.ENDS)
    if _counted(dimensions) > 2 or _KERNEL_NAME.search(name):
        return Place(Part.KERNEL)
    return Place(Part.ENCODER if name.startswith(_ENCODERS) else Part.DECODER)


def _counted(dimensions: tuple[int, ...]) -> int:
    """Dimensions up to the last that is not 1, as GGML counts them."""
    return max((index + 1 for index, size in enumerate(dimensions) if size > 1), default=1)


def fitting(kind: GGMLQuantizationType, width: int) -> GGMLQuantizationType:
    """Return `kind` if rows of so many values divide into its blocks, else the type that takes its place."""
    if width % GGML_QUANT_SIZES[kind][0] == 0:
        return kind
    smaller = SMALLER_BLOCKS.get(kind)
    return smaller if smaller is not None and width % GGML_QUANT_SIZES[smaller][0] == 0 else _K.F16
