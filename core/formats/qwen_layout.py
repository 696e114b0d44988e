"""The tensors of Qwen3-TTS files and their shapes, as the converter of qwentts.cpp and ours write them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from .layout import ANY, Layout, Shape, TensorTable, with_bias
from .metadata import MOST_PARTS
from .qwen import CodecDecoderSizes, CodecEncoderSizes, CodecFile, TalkerFile, TransformerSizes

Entries = Iterator[tuple[str, Shape]]

_RESIDUAL_UNITS = 3
_DWCONV_KERNEL = 7
_WIDENING = 4
"""How much wider a ConvNeXt block is inside."""
_SPEAKER_BLOCKS = (1, 2, 3)
_MEL_BANDS = 128


def talker_layout(file: TalkerFile) -> Layout:
    """Return the tensors of a talker and its code predictor, without the speaker encoder."""
    return dict(_talker(file))


def speaker_encoder_layout(file: TalkerFile, table: TensorTable) -> Layout:
    """Return the tensors of the speaker encoder, none where the file states none.

    The metadata states the width of its output only: other widths are those of its first tensors.
    """
    return dict(_speaker_encoder(file, table))


def decoder_layout(file: CodecFile) -> Layout:
    """Return the tensors of a codec's decoder."""
    return dict(_decoder(file.decoder))


def encoder_layout(file: CodecFile) -> Layout:
    """Return the tensors of a codec's encoder."""
    return dict(_encoder(file.encoder, file))


def decoder_stack(prefix: str, sizes: TransformerSizes, *, query_norms: bool) -> Entries:
    """Yield the tensors of a pre-norm transformer with SwiGLU, without biases."""
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    for layer in range(sizes.layers):
        block = f"{prefix}blk.{layer}."
        yield f"{block}attn_norm.weight", (sizes.width,)
        yield f"{block}ffn_norm.weight", (sizes.width,)
        yield from _attention(block, sizes.width, queries, keys)
        if query_norms:
            yield f"{block}attn_q_norm.weight", (sizes.head_dim,)
            yield f"{block}attn_k_norm.weight", (sizes.head_dim,)
        yield f"{block}ffn_gate.weight", (sizes.ffn_width, sizes.width)
        yield f"{block}ffn_up.weight", (sizes.ffn_width, sizes.width)
        yield f"{block}ffn_down.weight", (sizes.width, sizes.ffn_width)


def _attention(block: str, width: int, queries: int, keys: int) -> Entries:
    yield f"{block}attn_q.weight", (queries, width)
    yield f"{block}attn_k.weight", (keys, width)
    yield f"{block}attn_v.weight", (keys, width)
    yield f"{block}attn_output.weight", (width, queries)


def _talker(file: TalkerFile) -> Entries:
    width, text, inner = file.talker.width, file.text_width, file.code_predictor.width
    yield "talker.text_embd.weight", (file.text_vocabulary, text)
    yield "talker.codec_embd.weight", (file.vocabulary, width)
    yield from with_bias("talker.text_proj.fc1", (text, text))
    yield from with_bias("talker.text_proj.fc2", (width, text))
    yield "talker.codec_head.weight", (file.vocabulary, width)
    yield "talker.output_norm.weight", (width,)
    yield from decoder_stack("talker.", file.talker, query_norms=True)
    yield from decoder_stack("code_pred.", file.code_predictor, query_norms=True)
    yield "code_pred.output_norm.weight", (inner,)
    if width != inner:
        yield from with_bias("code_pred.mtp_proj", (inner, width))
    for codebook in range(file.codebooks - 1):
        yield f"code_pred.codec_embd.{codebook}.weight", (file.codebook_entries, width)
        yield f"code_pred.lm_head.{codebook}.weight", (file.codebook_entries, inner)


def _speaker_encoder(file: TalkerFile, table: TensorTable) -> Entries:
    if file.speaker_encoder is None:
        return
    channels = _outputs(table, "spk_enc.conv0.weight")
    yield from with_bias("spk_enc.conv0", (channels, _MEL_BANDS, 5))
    for block in (f"spk_enc.blk.{index}" for index in _SPEAKER_BLOCKS):
        parts = max(1, sum(f"{block}.res2net.{index}.weight" in table for index in range(MOST_PARTS))) + 1
        width, squeezed = channels // parts, _outputs(table, f"{block}.se.conv1.weight")
        yield from with_bias(f"{block}.tdnn1", (channels, channels, 1))
        for branch in range(parts - 1):
            yield from with_bias(f"{block}.res2net.{branch}", (width, width, 3))
        yield from with_bias(f"{block}.tdnn2", (channels, width * parts, 1))
        yield from with_bias(f"{block}.se.conv1", (squeezed, channels, 1))
        yield from with_bias(f"{block}.se.conv2", (channels, squeezed, 1))
    joined, hidden = len(_SPEAKER_BLOCKS) * channels, _outputs(table, "spk_enc.asp.tdnn.weight")
    yield from with_bias("spk_enc.mfa", (joined, joined, 1))
    yield from with_bias("spk_enc.asp.tdnn", (hidden, 3 * joined, 1))
    yield from with_bias("spk_enc.asp.conv", (joined, hidden, 1))
    yield from with_bias("spk_enc.fc", (file.speaker_encoder.width, 2 * joined, 1))


def _outputs(table: TensorTable, name: str) -> int:
    """Return the first length of a convolution's kernel (outputs, inputs, kernel), 1 where GGUF has not kept it."""
    if name not in table:
        return 1
    shape = table.shape(name)
    return shape[0] if len(shape) == 3 else 1


def _decoder(sizes: CodecDecoderSizes) -> Entries:
    for chain, count in (
        ("first", sizes.semantic_quantizers),
        ("rest", sizes.quantizers - sizes.semantic_quantizers),
    ):
        yield f"tok_dec.vq_{chain}.output_proj.weight", (sizes.codebook_width, ANY, 1)
        for index in range(count):
            yield f"tok_dec.vq_{chain}.{index}.codebook", (sizes.codebook_entries, ANY)
    latent, stack = sizes.latent_width, sizes.transformer
    yield from with_bias("tok_dec.pre_conv", (latent, sizes.codebook_width, ANY))
    yield from with_bias("tok_dec.pre_tfm.input_proj", (stack.width, latent))
    yield from with_bias("tok_dec.pre_tfm.output_proj", (latent, stack.width))
    yield "tok_dec.pre_tfm.norm.weight", (stack.width,)
    yield from decoder_stack("tok_dec.pre_tfm.", stack, query_norms=False)
    yield from _layer_scales("tok_dec.pre_tfm.", stack)
    for index, stride in enumerate(sizes.upsample_strides):
        yield from _upsampling(f"tok_dec.upsample.{index}", latent, stride)
    yield from _dac(sizes)


def _layer_scales(prefix: str, sizes: TransformerSizes) -> Entries:
    for layer in range(sizes.layers):
        yield f"{prefix}blk.{layer}.attn_scale", (sizes.width,)
        yield f"{prefix}blk.{layer}.ffn_scale", (sizes.width,)


def _upsampling(stage: str, width: int, stride: int) -> Entries:
    yield f"{stage}.conv.weight", (width, width, stride)
    yield f"{stage}.conv.bias", (width,)
    yield from with_bias(f"{stage}.dwconv", (width, 1, _DWCONV_KERNEL))
    yield from with_bias(f"{stage}.norm", (width,))
    yield from with_bias(f"{stage}.pwconv1", (_WIDENING * width, width))
    yield from with_bias(f"{stage}.pwconv2", (width, _WIDENING * width))
    yield f"{stage}.gamma", (width,)


def _dac(sizes: CodecDecoderSizes) -> Entries:
    channels = sizes.channels
    yield from with_bias("tok_dec.dec.0.conv", (channels, sizes.latent_width, ANY))
    for index, stride in enumerate(sizes.dac_strides, start=1):
        stage, outputs = f"tok_dec.dec.{index}", channels // 2
        yield from _snake(f"{stage}.snake", channels)
        yield f"{stage}.conv_t.weight", (channels, outputs, 2 * stride)
        yield f"{stage}.conv_t.bias", (outputs,)
        for unit in (f"{stage}.res.{number}" for number in range(_RESIDUAL_UNITS)):
            yield from _snake(f"{unit}.act1", outputs)
            yield from with_bias(f"{unit}.conv1", (outputs, outputs, ANY))
            yield from _snake(f"{unit}.act2", outputs)
            yield from with_bias(f"{unit}.conv2", (outputs, outputs, 1))
        channels = outputs
    last = len(sizes.dac_strides) + 1
    yield from _snake(f"tok_dec.dec.{last}.snake", channels)
    yield from with_bias(f"tok_dec.dec.{last + 1}.conv", (1, channels, ANY))


def _snake(name: str, channels: int) -> Entries:
    yield f"{name}.alpha", (channels,)
    yield f"{name}.beta", (channels,)


def _encoder(sizes: CodecEncoderSizes, file: CodecFile) -> Entries:
    stack = sizes.transformer
    for chain, count in (
        ("semantic", sizes.semantic_quantizers),
        ("acoustic", file.codebooks - sizes.semantic_quantizers),
    ):
        yield f"tok_enc.vq_{chain}.input_proj.weight", (ANY, stack.width, 1)
        for index in range(count):
            yield f"tok_enc.vq_{chain}.{index}.codebook", (sizes.codebook_entries, ANY)
    yield from _seanet(sizes)
    yield from _encoder_stack(stack)
    yield (
        "tok_enc.downsample.weight",
        (stack.width, stack.width, 2 * (file.encoder_frame_samples // prod(sizes.strides))),
    )


def _seanet(sizes: CodecEncoderSizes) -> Entries:
    """Yield the convolutions of SEANet, which counts its activations as layers too."""
    channels, index = sizes.filters, 0
    yield from with_bias("tok_enc.conv.0", (channels, 1, sizes.kernel))
    for stride in sizes.strides:
        inner = max(1, channels // sizes.compress)
        for unit in range(index + 1, index + 1 + sizes.residual_layers):
            yield from with_bias(f"tok_enc.res.{unit}.blk.1", (inner, channels, sizes.residual_kernel))
            yield from with_bias(f"tok_enc.res.{unit}.blk.3", (channels, inner, 1))
        index += sizes.residual_layers + 2
        yield from with_bias(f"tok_enc.conv.{index}", (2 * channels, channels, 2 * stride))
        channels *= 2
    yield from with_bias(f"tok_enc.conv.{index + 2}", (sizes.transformer.width, channels, sizes.last_kernel))


def _encoder_stack(sizes: TransformerSizes) -> Entries:
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    for layer in range(sizes.layers):
        block = f"tok_enc.blk.{layer}."
        yield from with_bias(f"{block}attn_norm", (sizes.width,))
        yield from with_bias(f"{block}ffn_norm", (sizes.width,))
        yield from _attention(block, sizes.width, queries, keys)
        yield f"{block}ffn_up.weight", (sizes.ffn_width, sizes.width)
        yield f"{block}ffn_down.weight", (sizes.width, sizes.ffn_width)
    yield from _layer_scales("tok_enc.", sizes)
