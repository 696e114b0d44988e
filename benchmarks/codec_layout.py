"""Sizes, tensors and metadata of the published Qwen3-TTS 12 Hz codec."""

from __future__ import annotations

from collections.abc import Iterator

from random_weights import RandomTensor

from ggtts.core.convert.plan import Metadata

CODEBOOKS, ENTRIES, CODEBOOK_WIDTH, QUANTIZER_WIDTH = 16, 2048, 256, 512
ENCODER_FILTERS, ENCODER_WIDTH, ENCODER_FFN, ENCODER_STRIDES = 64, 512, 2048, (4, 5, 6, 8)
LATENT, DECODER_WIDTH, DECODER_FFN, DECODER_INNER, LAYERS = 1024, 512, 1024, 1024, 8
DAC_WIDTH, DAC_RATES, UPSAMPLING = 1536, (8, 5, 4, 3), (2, 2)
MATRIX_STD, BIAS_STD, LAYER_SCALE = 0.04, 0.01, 0.1


def codec_tensors() -> Iterator[RandomTensor]:
    """Yield every tensor, scaled so that activations keep their size on the way through."""
    yield from _encoder_convolutions()
    for layer in range(LAYERS):
        yield from _encoder_layer(f"tok_enc.blk.{layer}.")
    yield RandomTensor(
        "tok_enc.downsample.weight", (ENCODER_WIDTH, ENCODER_WIDTH, 4), _fan(ENCODER_WIDTH * 4)
    )
    for side, books in (("semantic", 1), ("acoustic", CODEBOOKS - 1)):
        prefix = f"tok_enc.vq_{side}."
        yield RandomTensor(
            f"{prefix}input_proj.weight", (CODEBOOK_WIDTH, ENCODER_WIDTH, 1), _fan(ENCODER_WIDTH)
        )
        yield from _quantizer(prefix, books)
    for side, books in (("first", 1), ("rest", CODEBOOKS - 1)):
        yield from _quantizer(f"tok_dec.vq_{side}.", books)
    yield from _convolution("tok_dec.pre_conv", LATENT, QUANTIZER_WIDTH, 3)
    yield from _decoder_transformer("tok_dec.pre_tfm.")
    for stage, rate in enumerate(UPSAMPLING):
        yield from _upsampler(f"tok_dec.upsample.{stage}.", rate)
    yield from _dac()


def _fan(inputs: int, gain: float = 1.0) -> float:
    return gain * float(inputs) ** -0.5


def _convolution(
    name: str, outputs: int, inputs: int, kernel: int, gain: float = 0.7
) -> Iterator[RandomTensor]:
    yield RandomTensor(f"{name}.weight", (outputs, inputs, kernel), _fan(inputs * kernel, gain))
    yield RandomTensor(f"{name}.bias", (outputs,), BIAS_STD)


def _transposed(name: str, inputs: int, outputs: int, kernel: int, stride: int) -> Iterator[RandomTensor]:
    yield RandomTensor(f"{name}.weight", (inputs, outputs, kernel), _fan(inputs * kernel // stride, 0.7))
    yield RandomTensor(f"{name}.bias", (outputs,), BIAS_STD)


def _constant(name: str, width: int, value: float) -> RandomTensor:
    return RandomTensor(name, (width,), mean=value)


def _quantizer(prefix: str, books: int) -> Iterator[RandomTensor]:
    yield RandomTensor(
        f"{prefix}output_proj.weight", (QUANTIZER_WIDTH, CODEBOOK_WIDTH, 1), _fan(CODEBOOK_WIDTH, 0.3)
    )
    for book in range(books):
        yield RandomTensor(f"{prefix}{book}.codebook", (ENTRIES, CODEBOOK_WIDTH), 1.0)


def _encoder_convolutions() -> Iterator[RandomTensor]:
    width = ENCODER_FILTERS
    yield from _convolution("tok_enc.conv.0", width, 1, 7)
    for stage, stride in enumerate(ENCODER_STRIDES):
        unit = 3 * stage + 1
        yield from _convolution(f"tok_enc.res.{unit}.blk.1", width // 2, width, 3)
        yield from _convolution(f"tok_enc.res.{unit}.blk.3", width, width // 2, 1)
        yield from _convolution(f"tok_enc.conv.{unit + 2}", 2 * width, width, 2 * stride)
        width *= 2
    yield from _convolution("tok_enc.conv.14", ENCODER_WIDTH, width, 3)


def _encoder_layer(prefix: str) -> Iterator[RandomTensor]:
    width = ENCODER_WIDTH
    for norm in ("attn_norm", "ffn_norm"):
        yield _constant(f"{prefix}{norm}.weight", width, 1.0)
        yield _constant(f"{prefix}{norm}.bias", width, 0.0)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        yield RandomTensor(f"{prefix}{name}.weight", (width, width), MATRIX_STD)
    yield RandomTensor(f"{prefix}ffn_up.weight", (ENCODER_FFN, width), MATRIX_STD)
    yield RandomTensor(f"{prefix}ffn_down.weight", (width, ENCODER_FFN), MATRIX_STD)
    for scale in ("attn_scale", "ffn_scale"):
        yield _constant(f"{prefix}{scale}", width, LAYER_SCALE)


def _decoder_transformer(prefix: str) -> Iterator[RandomTensor]:
    width = DECODER_WIDTH
    yield RandomTensor(f"{prefix}input_proj.weight", (width, LATENT), MATRIX_STD)
    yield RandomTensor(f"{prefix}input_proj.bias", (width,), BIAS_STD)
    for layer in range(LAYERS):
        block = f"{prefix}blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v"):
            yield RandomTensor(f"{block}{name}.weight", (DECODER_INNER, width), MATRIX_STD)
        yield RandomTensor(f"{block}attn_output.weight", (width, DECODER_INNER), MATRIX_STD)
        yield RandomTensor(f"{block}ffn_gate.weight", (DECODER_FFN, width), MATRIX_STD)
        yield RandomTensor(f"{block}ffn_up.weight", (DECODER_FFN, width), MATRIX_STD)
        yield RandomTensor(f"{block}ffn_down.weight", (width, DECODER_FFN), MATRIX_STD)
        for norm in ("attn_norm.weight", "ffn_norm.weight"):
            yield _constant(f"{block}{norm}", width, 1.0)
        for scale in ("attn_scale", "ffn_scale"):
            yield _constant(f"{block}{scale}", width, LAYER_SCALE)
    yield _constant(f"{prefix}norm.weight", width, 1.0)
    yield RandomTensor(f"{prefix}output_proj.weight", (LATENT, width), MATRIX_STD)
    yield RandomTensor(f"{prefix}output_proj.bias", (LATENT,), BIAS_STD)


def _upsampler(prefix: str, rate: int) -> Iterator[RandomTensor]:
    yield from _transposed(f"{prefix}conv", LATENT, LATENT, rate, rate)
    yield from _convolution(f"{prefix}dwconv", LATENT, 1, 7)
    yield _constant(f"{prefix}norm.weight", LATENT, 1.0)
    yield _constant(f"{prefix}norm.bias", LATENT, 0.0)
    for name, outputs, inputs in (("pwconv1", 4 * LATENT, LATENT), ("pwconv2", LATENT, 4 * LATENT)):
        yield RandomTensor(f"{prefix}{name}.weight", (outputs, inputs), _fan(inputs))
        yield RandomTensor(f"{prefix}{name}.bias", (outputs,), BIAS_STD)
    yield _constant(f"{prefix}gamma", LATENT, LAYER_SCALE)


def _dac() -> Iterator[RandomTensor]:
    width = DAC_WIDTH
    yield from _convolution("tok_dec.dec.0.conv", width, LATENT, 7)
    for stage, rate in enumerate(DAC_RATES, start=1):
        prefix = f"tok_dec.dec.{stage}."
        yield from _snake(f"{prefix}snake", width)
        yield from _transposed(f"{prefix}conv_t", width, width // 2, 2 * rate, rate)
        width //= 2
        for unit in range(3):
            yield from _snake(f"{prefix}res.{unit}.act1", width)
            yield from _convolution(f"{prefix}res.{unit}.conv1", width, width, 7, gain=0.5)
            yield from _snake(f"{prefix}res.{unit}.act2", width)
            yield from _convolution(f"{prefix}res.{unit}.conv2", width, width, 1, gain=0.5)
    yield from _snake("tok_dec.dec.5.snake", width)
    yield from _convolution("tok_dec.dec.6.conv", 1, width, 7, gain=0.1)


def _snake(name: str, width: int) -> Iterator[RandomTensor]:
    yield RandomTensor(f"{name}.alpha", (width,), 0.2)
    yield RandomTensor(f"{name}.beta", (width,), 0.2, mean=0.5)


def codec_metadata() -> Metadata:
    """Return the keys of the file, in the published values."""
    metadata = Metadata()
    own = metadata.under("qwen3-tts-tokenizer.")
    for key, value in (
        ("input_sample_rate", 24000),
        ("output_sample_rate", 24000),
        ("decode_upsample_rate", 1920),
    ):
        own.integer(key, value)
    own.integer("encode_downsample_rate", 1920)
    own.integer("encoder_valid_num_quantizers", CODEBOOKS)
    _decoder_metadata(own.under("decoder."))
    _encoder_metadata(own.under("encoder."))
    return metadata


def _decoder_metadata(metadata: Metadata) -> None:
    for key, value in {
        "latent_dim": LATENT,
        "codebook_dim": QUANTIZER_WIDTH,
        "codebook_size": ENTRIES,
        "decoder_dim": DAC_WIDTH,
        "hidden_size": DECODER_WIDTH,
        "intermediate_size": DECODER_FFN,
        "head_dim": 64,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": LAYERS,
        "num_quantizers": CODEBOOKS,
        "num_semantic_quantizers": 1,
        "sliding_window": 72,
        "vector_quantization_hidden_dim": QUANTIZER_WIDTH,
        "codebook_dim_internal": CODEBOOK_WIDTH,
    }.items():
        metadata.integer(key, value)
    metadata.number("rms_norm_eps", 1e-5)
    metadata.number("rope_theta", 10000.0)
    metadata.number("layer_scale_initial_scale", 0.01)
    metadata.integers("upsample_rates", DAC_RATES)
    metadata.integers("upsampling_ratios", UPSAMPLING)


def _encoder_metadata(metadata: Metadata) -> None:
    for key, value in {
        "num_filters": ENCODER_FILTERS,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "num_residual_layers": 1,
        "dilation_growth_rate": 2,
        "compress": 2,
        "hidden_size": ENCODER_WIDTH,
        "intermediate_size": ENCODER_FFN,
        "head_dim": 64,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "num_hidden_layers": LAYERS,
        "codebook_dim": CODEBOOK_WIDTH,
        "codebook_size": ENTRIES,
        "num_quantizers": 32,
        "num_semantic_quantizers": 1,
        "vector_quantization_hidden_dim": CODEBOOK_WIDTH,
    }.items():
        metadata.integer(key, value)
    metadata.number("norm_eps", 1e-5)
    metadata.number("rope_theta", 10000.0)
    metadata.number("layer_scale_initial_scale", 0.01)
    metadata.integers("upsampling_ratios", ENCODER_STRIDES[::-1])
