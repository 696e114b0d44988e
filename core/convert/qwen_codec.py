"""The Qwen3-TTS 12 Hz codec: Hugging Face folder -> plan of a `qwen3-tts-tokenizer` GGUF file.

Names, types and metadata are those of qwentts.cpp's converter. Convolutions keep PyTorch's layout and snake
parameters stay logarithms; only the codebooks are computed: a checkpoint stores the running sums of their training
(EMA k-means, van den Oord et al. 2017, appendix A.1), an entry is its sum over its usage. Encoder codebooks
beyond the ones that the codec uses, the decoder's `input_proj` and the `initialized` flags serve no
program and are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from ..formats.qwen import CODEC_ARCHITECTURE
from .config_reader import Section, read_json
from .plan import Metadata, ModelPlan, PlannedTensor, require_tensors
from .safetensors_reader import Checkpoint, StoredTensor

MODEL_TYPE = "qwen3_tts_tokenizer_12hz"
SMALLEST_USAGE = np.float32(1e-5)

ATTENTION_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
FEED_FORWARD_NAMES = {
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}
LAYER_NAMES = ATTENTION_NAMES | FEED_FORWARD_NAMES
DECODER_MATRICES = (*ATTENTION_NAMES.values(), "ffn_gate", "ffn_up", "ffn_down")
SCALE_NAMES = {"self_attn_layer_scale": "attn_scale", "mlp_layer_scale": "ffn_scale"}

STACKS = {"encoder.encoder_transformer": "tok_enc", "decoder.pre_transformer": "tok_dec.pre_tfm"}

NAME_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"encoder\.encoder\.layers\.(\d+)\.conv", r"tok_enc.conv.\1"),
    (r"encoder\.encoder\.layers\.(\d+)\.block\.(\d+)\.conv", r"tok_enc.res.\1.blk.\2"),
    (r"encoder\.downsample\.conv", r"tok_enc.downsample"),
    (r"encoder\.quantizer\.(\w+)_residual_vector_quantizer\.(input|output)_proj", r"tok_enc.vq_\1.\2_proj"),
    (r"decoder\.quantizer\.rvq_(first|rest)\.output_proj", r"tok_dec.vq_\1.output_proj"),
    (r"decoder\.pre_conv\.conv", r"tok_dec.pre_conv"),
    (r"decoder\.pre_transformer\.(input_proj|output_proj|norm)", r"tok_dec.pre_tfm.\1"),
    (r"decoder\.upsample\.(\d+)\.0\.conv", r"tok_dec.upsample.\1.conv"),
    (r"decoder\.upsample\.(\d+)\.1\.dwconv\.conv", r"tok_dec.upsample.\1.dwconv"),
    (r"decoder\.upsample\.(\d+)\.1\.(norm|pwconv[12])", r"tok_dec.upsample.\1.\2"),
    (r"decoder\.decoder\.(\d+)\.conv", r"tok_dec.dec.\1.conv"),
    (r"decoder\.decoder\.(\d+)\.block\.1\.conv", r"tok_dec.dec.\1.conv_t"),
)

UNIT_PATTERN = re.compile(r"decoder\.decoder\.(\d+)\.block\.(\d+)\.(act[12]|conv[12])(?:\.conv)?\.(\w+)")
FIRST_UNIT = 2
UNITS_PER_STAGE = 3

CODEBOOK_PATTERNS = (
    (
        r"(decoder\.quantizer\.rvq_(first|rest)\.vq\.layers\.(\d+)\._codebook\.)embedding_sum",
        r"tok_dec.vq_\2.\3.codebook",
    ),
    (
        r"(encoder\.quantizer\.(semantic|acoustic)_residual_vector_quantizer\.layers\.(\d+)\.codebook\.)embed_sum",
        r"tok_enc.vq_\2.\3.codebook",
    ),
)
DROPPED = re.compile(
    r".*\.initialized|.*\.cluster_usage|decoder\.quantizer\.rvq_(first|rest)\.input_proj\.weight"
)


@dataclass(frozen=True)
class Codebook:
    """A codebook computed from its training sums: `sums` [entries, width] over `usage` [entries]."""

    sums: StoredTensor
    usage: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """[entries, width]."""
        return self.sums.shape

    @property
    def dtype(self) -> str:
        """Type of the sums in the checkpoint."""
        return self.sums.dtype

    def rows(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return entries start..stop; the clamp keeps entries finite that training never used."""
        usage = np.maximum(self.usage.rows(start, stop), SMALLEST_USAGE)
        entries: npt.NDArray[np.float32] = self.sums.rows(start, stop) / usage[:, None]
        return entries


def gguf_name(name: str) -> str | None:
    """Return the GGUF name of a checkpoint tensor that is stored as it is, or None."""
    stem, _, kind = name.rpartition(".")
    if kind in ("weight", "bias"):
        for source, target in NAME_PATTERNS:
            match = re.fullmatch(source, stem)
            if match:
                return f"{match.expand(target)}.{kind}"
    return _layer_name(stem, kind) or _upsampler_name(name)


def _layer_name(stem: str, kind: str) -> str | None:
    match = re.fullmatch(r"(\w+\.\w+)\.layers\.(\d+)\.(.+)", stem)
    if match is None or match[1] not in STACKS:
        return None
    block = f"{STACKS[match[1]]}.blk.{match[2]}"
    if kind == "scale" and match[3] in SCALE_NAMES:
        return f"{block}.{SCALE_NAMES[match[3]]}"
    if kind in ("weight", "bias") and match[3] in LAYER_NAMES:
        return f"{block}.{LAYER_NAMES[match[3]]}.{kind}"
    return None


def _upsampler_name(name: str) -> str | None:
    gamma = re.fullmatch(r"decoder\.upsample\.(\d+)\.1\.gamma", name)
    if gamma:
        return f"tok_dec.upsample.{gamma[1]}.gamma"
    snake = re.fullmatch(r"decoder\.decoder\.(\d+)\.(?:block\.0\.)?(alpha|beta)", name)
    if snake:
        return f"tok_dec.dec.{snake[1]}.snake.{snake[2]}"
    unit = UNIT_PATTERN.fullmatch(name)
    if unit and int(unit[2]) >= FIRST_UNIT:
        return f"tok_dec.dec.{unit[1]}.res.{int(unit[2]) - FIRST_UNIT}.{unit[3]}.{unit[4]}"
    return None


def plan_codec(folder: Path) -> ModelPlan:
    """Plan the GGUF file of a codec folder (config.json and weights).

    Raises ModelFileError for missing or malformed files, and for incomplete or unknown tensors.
    """
    config = read_json(folder / "config.json")
    checkpoint = Checkpoint.open(folder)
    tensors = [*_plain_tensors(checkpoint), *_codebooks(checkpoint, config)]
    require_tensors(folder, tensors, required_names(config))
    return ModelPlan(
        architecture=CODEC_ARCHITECTURE,
        name="Qwen3-TTS-Tokenizer-12Hz",
        stem="qwen-tokenizer-12hz",
        metadata=_metadata(config, checkpoint).entries,
        tensors=tensors,
    )


def _plain_tensors(checkpoint: Checkpoint) -> Iterator[PlannedTensor]:
    for stored in checkpoint:
        name = gguf_name(stored.name)
        if name is not None:
            yield PlannedTensor(name, stored)
        elif _codebook_name(stored.name) is None and not DROPPED.fullmatch(stored.name):
            raise ModelFileError(f"{checkpoint.folder}: tensor {stored.name!r} is not one of this codec")


def _codebook_name(name: str) -> tuple[str, str] | None:
    """Return the GGUF name of a codebook and the prefix of its two tensors, or None for other tensors."""
    for source, target in CODEBOOK_PATTERNS:
        match = re.fullmatch(source, name)
        if match:
            return match.expand(target), match[1]
    return None


def _codebooks(checkpoint: Checkpoint, config: Section) -> list[PlannedTensor]:
    """Return the codebooks that the codec uses, in the order of their names and numbers."""
    used = dict(_codebook_counts(config))
    planned: list[tuple[str, int, PlannedTensor]] = []
    for stored in checkpoint:
        named = _codebook_name(stored.name)
        if named is None:
            continue
        name, prefix = named
        quantizer, number = name.removesuffix(".codebook").rsplit(".", 1)
        if int(number) < used[quantizer]:
            source = Codebook(stored, checkpoint[f"{prefix}cluster_usage"])
            planned.append((quantizer, int(number), PlannedTensor(name, source)))
    return [tensor for _, _, tensor in sorted(planned, key=lambda item: item[:2])]


def _codebook_counts(config: Section) -> Iterator[tuple[str, int]]:
    """Yield each quantizer's GGUF name and how many codebooks of it are used."""
    decoder, encoder = config.section("decoder_config"), config.section("encoder_config")
    semantic = decoder.count("num_semantic_quantizers")
    yield "tok_dec.vq_first", semantic
    yield "tok_dec.vq_rest", decoder.count("num_quantizers") - semantic
    semantic = encoder.count("num_semantic_quantizers")
    yield "tok_enc.vq_semantic", semantic
    yield "tok_enc.vq_acoustic", config.count("encoder_valid_num_quantizers") - semantic


def required_names(config: Section) -> Iterator[str]:
    """Yield the GGUF name of every tensor that a checkpoint of this configuration must hold."""
    for quantizer, count in _codebook_counts(config):
        yield from (f"{quantizer}.{number}.codebook" for number in range(count))
        yield f"{quantizer}.output_proj.weight"
    yield from _encoder_names(config.section("encoder_config"))
    yield from _decoder_names(config.section("decoder_config"))


def _encoder_names(encoder: Section) -> Iterator[str]:
    """Yield the names of SEANet, transformer and projections; SEANet counts its activations as layers too."""
    yield from ("tok_enc.vq_semantic.input_proj.weight", "tok_enc.vq_acoustic.input_proj.weight")
    yield "tok_enc.downsample.weight"
    units, index = encoder.count("num_residual_layers"), 0
    yield from _with_bias("tok_enc.conv.0")
    for _ in encoder.integers("upsampling_ratios"):
        for unit in range(index + 1, index + 1 + units):
            yield from _with_bias(f"tok_enc.res.{unit}.blk.1", f"tok_enc.res.{unit}.blk.3")
        index += units + 2
        yield from _with_bias(f"tok_enc.conv.{index}")
    yield from _with_bias(f"tok_enc.conv.{index + 2}")
    for layer in range(encoder.count("num_hidden_layers")):
        block = f"tok_enc.blk.{layer}"
        yield from _with_bias(f"{block}.attn_norm", f"{block}.ffn_norm")
        matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")
        yield from (f"{block}.{name}.weight" for name in matrices)
        yield from (f"{block}.{name}" for name in SCALE_NAMES.values())


def _decoder_names(decoder: Section) -> Iterator[str]:
    """Yield the names of transformer, upsampling and DAC decoder."""
    yield from _with_bias("tok_dec.pre_conv", "tok_dec.pre_tfm.input_proj", "tok_dec.pre_tfm.output_proj")
    yield "tok_dec.pre_tfm.norm.weight"
    for layer in range(decoder.count("num_hidden_layers")):
        block = f"tok_dec.pre_tfm.blk.{layer}"
        yield from (f"{block}.{name}.weight" for name in DECODER_MATRICES)
        yield from (f"{block}.{name}" for name in SCALE_NAMES.values())
    for stage in range(len(decoder.integers("upsampling_ratios"))):
        names = ("conv", "dwconv", "norm", "pwconv1", "pwconv2")
        yield from _with_bias(*(f"tok_dec.upsample.{stage}.{name}" for name in names))
        yield f"tok_dec.upsample.{stage}.gamma"
    stages = len(decoder.integers("upsample_rates"))
    yield from _with_bias("tok_dec.dec.0.conv", f"tok_dec.dec.{stages + 2}.conv")
    yield from (f"tok_dec.dec.{stages + 1}.snake.{name}" for name in ("alpha", "beta"))
    for stage in range(1, stages + 1):
        yield from _dac_stage_names(f"tok_dec.dec.{stage}")


def _dac_stage_names(stage: str) -> Iterator[str]:
    yield from _with_bias(f"{stage}.conv_t")
    yield from (f"{stage}.snake.{name}" for name in ("alpha", "beta"))
    for unit in (f"{stage}.res.{number}" for number in range(UNITS_PER_STAGE)):
        yield from _with_bias(f"{unit}.conv1", f"{unit}.conv2")
        yield from (f"{unit}.{act}.{name}" for act in ("act1", "act2") for name in ("alpha", "beta"))


def _with_bias(*names: str) -> Iterator[str]:
    for name in names:
        yield from (f"{name}.weight", f"{name}.bias")


def _metadata(config: Section, checkpoint: Checkpoint) -> Metadata:
    metadata = Metadata(f"{CODEC_ARCHITECTURE}.")
    for key in (
        "input_sample_rate",
        "output_sample_rate",
        "decode_upsample_rate",
        "encode_downsample_rate",
        "encoder_valid_num_quantizers",
    ):
        metadata.integer(key, config.integer(key))
    codebook = checkpoint["decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum"]
    _decoder_sizes(metadata.under("decoder."), config.section("decoder_config"), codebook.row_length)
    _encoder_sizes(metadata.under("encoder."), config.section("encoder_config"))
    return metadata


def _copy_integers(metadata: Metadata, section: Section, keys: str) -> None:
    for key in keys.split():
        metadata.integer(key, section.integer(key))


def _copy_numbers(metadata: Metadata, section: Section, keys: str) -> None:
    for key in keys.split():
        metadata.number(key, section.number(key))


def _decoder_sizes(metadata: Metadata, decoder: Section, codebook_width: int) -> None:
    _copy_integers(
        metadata,
        decoder,
        "latent_dim codebook_dim codebook_size decoder_dim hidden_size intermediate_size head_dim "
        "num_attention_heads num_key_value_heads num_hidden_layers num_quantizers num_semantic_quantizers",
    )
    _copy_numbers(metadata, decoder, "rms_norm_eps rope_theta")
    _copy_integers(metadata, decoder, "sliding_window")
    _copy_numbers(metadata, decoder, "layer_scale_initial_scale")
    metadata.integers("upsample_rates", decoder.integers("upsample_rates"))
    metadata.integers("upsampling_ratios", decoder.integers("upsampling_ratios"))
    metadata.integer(
        "vector_quantization_hidden_dim", decoder.integer("vector_quantization_hidden_dimension")
    )
    metadata.integer("codebook_dim_internal", codebook_width)


def _encoder_sizes(metadata: Metadata, encoder: Section) -> None:
    _copy_integers(
        metadata,
        encoder,
        "num_filters kernel_size last_kernel_size residual_kernel_size num_residual_layers "
        "dilation_growth_rate compress",
    )
    metadata.integers("upsampling_ratios", encoder.integers("upsampling_ratios"))
    _copy_integers(
        metadata,
        encoder,
        "hidden_size intermediate_size head_dim num_attention_heads num_key_value_heads num_hidden_layers",
    )
    _copy_numbers(metadata, encoder, "norm_eps rope_theta layer_scale_initial_scale")
    _copy_integers(metadata, encoder, "codebook_dim codebook_size num_quantizers num_semantic_quantizers")
    metadata.integer(
        "vector_quantization_hidden_dim", encoder.integer("vector_quantization_hidden_dimension")
    )
