"""OmniVoice's codec (Higgs Audio v2): `audio_tokenizer` folder -> plan of an `omnivoice-tokenizer` GGUF file.

Names, types and metadata are those of omnivoice.cpp's converter: tensors keep the names of the checkpoint and
PyTorch's layout, in alphabetical order. One weight is computed: the positional convolution of HuBERT is
stored as direction and length, and written folded, as the last tensor. What only training needs is dropped.
The file is float32 whatever type is asked for, because the official package computes the codec in float32 and
its codes depend on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from ..formats.metadata import MOST_PARTS
from ..formats.omnivoice import CODEC_ARCHITECTURE
from .config_reader import Section, read_json
from .plan import Metadata, ModelPlan, PlannedTensor, require_tensors
from .safetensors_reader import Checkpoint, StoredTensor

MODEL_TYPE = "higgs_audio_v2_tokenizer"

POSITION_CONV = "semantic_model.encoder.pos_conv_embed.conv"
FOLDED_FORMS = (
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ("weight_g", "weight_v"),
)
"""How PyTorch names length and direction of a normalised weight: since 2.0, and before."""

DROPPED = re.compile(
    r"decoder_semantic\..+|fc1\.(weight|bias)|quantizer\.quantizers\.\d+\.codebook\.(cluster_size|embed_avg|inited)"
    r"|semantic_model\.masked_spec_embed"
)
UNITS_PER_BLOCK = 3


@dataclass(frozen=True)
class FoldedWeight:
    """A weight that is stored as direction [out, in, kernel] and length [1, 1, kernel] (Salimans and Kingma, "Weight
    Normalization", 2016; torch.nn.utils.parametrizations.weight_norm with dim=2): direction * length / |direction|."""

    length: StoredTensor
    direction: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """[out, in, kernel]."""
        return self.direction.shape

    @property
    def dtype(self) -> str:
        """Type of the direction in the checkpoint."""
        return self.direction.dtype

    @cached_property
    def _scale(self) -> npt.NDArray[np.float32]:
        direction = self.direction.read().astype(np.float64)
        norm = np.sqrt(np.square(direction).sum(axis=(0, 1), keepdims=True))
        scale: npt.NDArray[np.float32] = (self.length.read() / norm).astype(np.float32)
        return scale

    def rows(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return output channels start..stop of the weight."""
        folded: npt.NDArray[np.float32] = self.direction.rows(start, stop) * self._scale
        return folded


def plan_codec(folder: Path) -> ModelPlan:
    """Plan the GGUF file of a codec folder (config.json and weights).

    Raises ModelFileError for missing or malformed files, and for incomplete or unknown tensors.
    """
    config = read_json(folder / "config.json")
    checkpoint = Checkpoint.open(folder)
    tensors = list(_tensors(checkpoint, set(required_names(config))))
    require_tensors(folder, tensors, required_names(config))
    return ModelPlan(
        architecture=CODEC_ARCHITECTURE,
        name="OmniVoice-tokenizer",
        stem="omnivoice-tokenizer",
        metadata=_metadata(config).entries,
        tensors=tensors,
        float32=True,
    )


def _tensors(checkpoint: Checkpoint, known: set[str]) -> Iterator[PlannedTensor]:
    parts = {f"{POSITION_CONV}.{part}" for form in FOLDED_FORMS for part in form}
    for stored in sorted(checkpoint, key=lambda tensor: tensor.name):
        if stored.name in known:
            yield PlannedTensor(stored.name, stored)
        elif stored.name not in parts and not DROPPED.fullmatch(stored.name):
            raise ModelFileError(f"{checkpoint.folder}: tensor {stored.name!r} is not one of this codec")
    for length, direction in FOLDED_FORMS:
        if f"{POSITION_CONV}.{direction}" in checkpoint:
            source = FoldedWeight(
                checkpoint[f"{POSITION_CONV}.{length}"], checkpoint[f"{POSITION_CONV}.{direction}"]
            )
            yield PlannedTensor(f"{POSITION_CONV}.weight", source)


def codebooks(config: Section) -> int:
    """Return the number of codebooks: a frame has as many as its share of the largest bandwidth (kbit/s) holds."""
    frame_rate = math.ceil(
        config.size("sample_rate") / config.section("acoustic_model_config").size("hop_length")
    )
    bits = max(1, math.ceil(math.log2(config.size("codebook_size"))))
    bandwidths = config.numbers("target_bandwidths") or [0.0]
    return min(MOST_PARTS, max(0, int(1000 * bandwidths[-1] // (frame_rate * bits))))


def required_names(config: Section) -> Iterator[str]:
    """Yield the name of every tensor that a checkpoint of this configuration must hold."""
    acoustic, semantic = config.section("acoustic_model_config"), config.section("semantic_model_config")
    yield from _with_bias("fc", "fc2")
    for number in range(codebooks(config)):
        quantizer = f"quantizer.quantizers.{number}"
        yield f"{quantizer}.codebook.embed"
        yield from _with_bias(f"{quantizer}.project_in", f"{quantizer}.project_out")
    yield from _dac_names("acoustic_encoder", "conv1", len(acoustic.integers("downsampling_ratios")))
    yield from _dac_names("acoustic_decoder", "conv_t1", len(acoustic.integers("upsampling_ratios")))
    yield from _semantic_encoder_names(config)
    yield from _hubert_names(semantic)


def _dac_names(half: str, resampling: str, blocks: int) -> Iterator[str]:
    yield from _with_bias(f"{half}.conv1", f"{half}.conv2")
    yield f"{half}.snake1.alpha"
    for block in (f"{half}.block.{number}" for number in range(blocks)):
        yield from _with_bias(f"{block}.{resampling}")
        yield f"{block}.snake1.alpha"
        for unit in (f"{block}.res_unit{number}" for number in range(1, UNITS_PER_BLOCK + 1)):
            yield from _with_bias(f"{unit}.conv1", f"{unit}.conv2")
            yield from (f"{unit}.snake1.alpha", f"{unit}.snake2.alpha")


def _semantic_encoder_names(config: Section) -> Iterator[str]:
    yield "encoder_semantic.conv.weight"
    for block in range(len(config.integers("strides"))):
        prefix = f"encoder_semantic.conv_blocks.{block}"
        yield from _with_bias(f"{prefix}.conv")
        for unit in range(len(config.integers("block_dilations"))):
            yield from (f"{prefix}.res_units.{unit}.{conv}.weight" for conv in ("conv1", "conv2"))


def _hubert_names(semantic: Section) -> Iterator[str]:
    extractor = "semantic_model.feature_extractor.conv_layers"
    for layer in range(len(semantic.integers("conv_dim"))):
        yield f"{extractor}.{layer}.conv.weight"
    yield from _with_bias(f"{extractor}.0.layer_norm")
    projection = "semantic_model.feature_projection"
    yield from _with_bias(f"{projection}.layer_norm", f"{projection}.projection")
    yield from _with_bias(POSITION_CONV, "semantic_model.encoder.layer_norm")
    for layer in range(semantic.count("num_hidden_layers")):
        prefix = f"semantic_model.encoder.layers.{layer}"
        yield from _with_bias(*(f"{prefix}.attention.{part}_proj" for part in ("q", "k", "v", "out")))
        yield from _with_bias(f"{prefix}.layer_norm", f"{prefix}.final_layer_norm")
        feed_forward = f"{prefix}.feed_forward"
        yield from _with_bias(f"{feed_forward}.intermediate_dense", f"{feed_forward}.output_dense")


def _with_bias(*names: str) -> Iterator[str]:
    for name in names:
        yield from (f"{name}.weight", f"{name}.bias")


def _metadata(config: Section) -> Metadata:
    metadata = Metadata("omnivoice.")
    keys = "sample_rate semantic_sample_rate downsample_factor codebook_size codebook_dim"
    _copy_integers(metadata, config, keys)
    acoustic, semantic = config.section("acoustic_model_config"), config.section("semantic_model_config")
    keys = "encoder_hidden_size decoder_hidden_size hidden_size n_codebooks hop_length"
    _copy_integers(metadata.under("acoustic."), acoustic, keys)
    _copy_lists(metadata.under("acoustic."), acoustic, "upsampling_ratios downsampling_ratios")
    keys = "hidden_size intermediate_size num_attention_heads num_hidden_layers num_feat_extract_layers"
    _copy_integers(metadata.under("semantic."), semantic, keys)
    _copy_lists(metadata.under("semantic."), semantic, "conv_dim conv_kernel conv_stride")
    keys = "num_conv_pos_embeddings num_conv_pos_embedding_groups"
    _copy_integers(metadata.under("semantic."), semantic, keys)
    metadata.under("semantic.").number("layer_norm_eps", semantic.number("layer_norm_eps"))
    return metadata


def _copy_integers(metadata: Metadata, section: Section, keys: str) -> None:
    for key in keys.split():
        metadata.integer(key, section.integer(key))


def _copy_lists(metadata: Metadata, section: Section, keys: str) -> None:
    for key in keys.split():
        metadata.integers(key, section.integers(key))
