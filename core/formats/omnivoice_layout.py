"""The tensors of OmniVoice files and their shapes, as the converter of omnivoice.cpp and ours write them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from .layout import ANY, Layout, Shape, TensorTable, with_bias
from .metadata import MOST_PARTS
from .omnivoice import AcousticSizes, OmniVoiceCodecFile, OmniVoiceFile, SemanticSizes

Entries = Iterator[tuple[str, Shape]]

_RESIDUAL_UNITS = (1, 2, 3)


def base_layout(file: OmniVoiceFile) -> Layout:
    """Return the tensors of a language model."""
    return dict(_base(file))


def decoder_layout(file: OmniVoiceCodecFile) -> Layout:
    """Return the tensors that turn codes into samples."""
    return dict([*_codebooks(file, "project_out", decoding=True), *_decoder(file)])


def encoder_layout(file: OmniVoiceCodecFile, table: TensorTable) -> Layout:
    """Return the tensors that turn samples into codes.

    The metadata does not state how deep the semantic encoder is: its blocks are those that are there.
    """
    return dict([*_codebooks(file, "project_in", decoding=False), *_encoder(file, table)])


def _base(file: OmniVoiceFile) -> Entries:
    sizes, codes = file.backbone, file.codebooks * file.audio_vocabulary
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    yield "llm.embed_tokens.weight", (file.vocabulary, sizes.width)
    yield "llm.norm.weight", (sizes.width,)
    yield "audio_embeddings.weight", (codes, sizes.width)
    yield "audio_heads.weight", (codes, sizes.width)
    for layer in (f"llm.layers.{index}" for index in range(sizes.layers)):
        yield f"{layer}.input_layernorm.weight", (sizes.width,)
        yield f"{layer}.post_attention_layernorm.weight", (sizes.width,)
        yield f"{layer}.self_attn.q_proj.weight", (queries, sizes.width)
        yield f"{layer}.self_attn.k_proj.weight", (keys, sizes.width)
        yield f"{layer}.self_attn.v_proj.weight", (keys, sizes.width)
        yield f"{layer}.self_attn.o_proj.weight", (sizes.width, queries)
        yield f"{layer}.self_attn.q_norm.weight", (sizes.head_dim,)
        yield f"{layer}.self_attn.k_norm.weight", (sizes.head_dim,)
        yield f"{layer}.mlp.gate_proj.weight", (sizes.ffn_width, sizes.width)
        yield f"{layer}.mlp.up_proj.weight", (sizes.ffn_width, sizes.width)
        yield f"{layer}.mlp.down_proj.weight", (sizes.width, sizes.ffn_width)


def _codebooks(file: OmniVoiceCodecFile, projection: str, *, decoding: bool) -> Entries:
    joint = file.acoustic.width + file.semantic.width
    shape = (joint, file.codebook_width) if decoding else (file.codebook_width, joint)
    for index in range(file.codebooks):
        book = f"quantizer.quantizers.{index}"
        yield f"{book}.codebook.embed", (file.codebook_entries, file.codebook_width)
        yield from with_bias(f"{book}.{projection}", shape)


def _decoder(file: OmniVoiceCodecFile) -> Entries:
    acoustic = file.acoustic
    channels, half = acoustic.decoder_channels, "acoustic_decoder"
    yield from with_bias("fc2", (acoustic.width, acoustic.width + file.semantic.width))
    yield from with_bias(f"{half}.conv1", (channels, acoustic.width, ANY))
    for index, stride in enumerate(acoustic.upsample_strides):
        block, outputs = f"{half}.block.{index}", channels // 2
        yield f"{block}.snake1.alpha", (1, channels, 1)
        yield f"{block}.conv_t1.weight", (channels, outputs, 2 * stride)
        yield f"{block}.conv_t1.bias", (outputs,)
        yield from _residual_units(block, outputs)
        channels = outputs
    yield f"{half}.snake1.alpha", (1, channels, 1)
    yield from with_bias(f"{half}.conv2", (1, channels, ANY))


def _residual_units(block: str, channels: int) -> Entries:
    for unit in (f"{block}.res_unit{number}" for number in _RESIDUAL_UNITS):
        yield f"{unit}.snake1.alpha", (1, channels, 1)
        yield from with_bias(f"{unit}.conv1", (channels, channels, ANY))
        yield f"{unit}.snake2.alpha", (1, channels, 1)
        yield from with_bias(f"{unit}.conv2", (channels, channels, 1))


def _encoder(file: OmniVoiceCodecFile, table: TensorTable) -> Entries:
    joint, width = file.acoustic.width + file.semantic.width, file.semantic.width
    yield from with_bias("fc", (joint, joint))
    yield from _acoustic_encoder(file.acoustic)
    yield from _semantic_encoder("encoder_semantic", width, table)
    yield from _hubert("semantic_model", file.semantic)


def _semantic_encoder(prefix: str, width: int, table: TensorTable) -> Entries:
    yield f"{prefix}.conv.weight", (width, width, ANY)
    for block in _present(f"{prefix}.conv_blocks", "conv.weight", table):
        for unit in _present(f"{block}.res_units", "conv1.weight", table):
            yield f"{unit}.conv1.weight", (width, width, ANY)
            yield f"{unit}.conv2.weight", (width, width, 1)
        yield from with_bias(f"{block}.conv", (width, width, ANY))


def _present(prefix: str, weight: str, table: TensorTable) -> Iterator[str]:
    """Yield `prefix.0`, `prefix.1`, ... as long as the file has this weight of them."""
    parts = (f"{prefix}.{index}" for index in range(MOST_PARTS))
    return takewhile(lambda part: f"{part}.{weight}" in table, parts)


def _acoustic_encoder(sizes: AcousticSizes) -> Entries:
    channels, half = sizes.encoder_channels, "acoustic_encoder"
    yield from with_bias(f"{half}.conv1", (channels, 1, ANY))
    for index, stride in enumerate(sizes.downsample_strides):
        block = f"{half}.block.{index}"
        yield from _residual_units(block, channels)
        yield f"{block}.snake1.alpha", (1, channels, 1)
        yield from with_bias(f"{block}.conv1", (2 * channels, channels, 2 * stride))
        channels *= 2
    yield f"{half}.snake1.alpha", (1, channels, 1)
    yield from with_bias(f"{half}.conv2", (sizes.width, channels, ANY))


def _hubert(prefix: str, sizes: SemanticSizes) -> Entries:
    extractor, width = f"{prefix}.feature_extractor.conv_layers", sizes.width
    inputs = 1
    for index, (outputs, kernel) in enumerate(zip(sizes.conv_channels, sizes.conv_kernels, strict=True)):
        yield f"{extractor}.{index}.conv.weight", (outputs, inputs, kernel)
        inputs = outputs
    yield from with_bias(f"{extractor}.0.layer_norm", sizes.conv_channels[:1])
    last = sizes.conv_channels[-1]
    yield from with_bias(f"{prefix}.feature_projection.layer_norm", (last,))
    yield from with_bias(f"{prefix}.feature_projection.projection", (width, last))
    group = width // sizes.position_groups
    yield from with_bias(f"{prefix}.encoder.pos_conv_embed.conv", (width, group, sizes.position_kernel))
    yield from with_bias(f"{prefix}.encoder.layer_norm", (width,))
    for layer in (f"{prefix}.encoder.layers.{index}" for index in range(sizes.layers)):
        for name in ("q", "k", "v", "out"):
            yield from with_bias(f"{layer}.attention.{name}_proj", (width, width))
        yield from with_bias(f"{layer}.layer_norm", (width,))
        yield from with_bias(f"{layer}.final_layer_norm", (width,))
        yield from with_bias(f"{layer}.feed_forward.intermediate_dense", (sizes.ffn_width, width))
        yield from with_bias(f"{layer}.feed_forward.output_dense", (width, sizes.ffn_width))
