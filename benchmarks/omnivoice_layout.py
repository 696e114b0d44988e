"""Configurations and tensors of the published OmniVoice checkpoint: the language model and its codec.

Tensors have the names of the GGUF files, which are those of the checkpoint but for one (omnivoice_checkpoint.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from random_weights import RandomTensor

CODEBOOKS, ENTRIES, CODEBOOK_WIDTH = 8, 1024, 64
WIDTH, FFN_WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 1024, 3072, 28, 16, 8, 128
TEXT_VOCABULARY = 151676
MATRIX_STD, BIAS_STD, ALPHA_STD = 0.02, 0.01, 0.2

BASE_CONFIG: dict[str, Any] = {
    "architectures": ["OmniVoice"],
    "model_type": "omnivoice",
    "dtype": "float32",
    "num_audio_codebook": CODEBOOKS,
    "audio_vocab_size": ENTRIES + 1,
    "audio_mask_id": ENTRIES,
    "audio_codebook_weights": [8, 8, 6, 6, 4, 4, 2, 2],
    "eos_token_id": 151645,
    "pad_token_id": 151643,
    "llm_config": {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "vocab_size": TEXT_VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": FFN_WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    },
}

ACOUSTIC_CONFIG: dict[str, Any] = {
    "model_type": "dac",
    "encoder_hidden_size": 64,
    "decoder_hidden_size": 1024,
    "hidden_size": 256,
    "n_codebooks": 9,
    "codebook_size": ENTRIES,
    "codebook_dim": 8,
    "hop_length": 960,
    "downsampling_ratios": [8, 5, 4, 2, 3],
    "upsampling_ratios": [8, 5, 4, 2, 3],
    "sampling_rate": 24000,
}

SEMANTIC_CONFIG: dict[str, Any] = {
    "model_type": "hubert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "num_feat_extract_layers": 7,
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "conv_bias": False,
    "feat_extract_norm": "group",
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "layer_norm_eps": 1e-5,
    "do_stable_layer_norm": False,
    "hidden_act": "gelu",
}

CODEC_CONFIG: dict[str, Any] = {
    "architectures": ["HiggsAudioV2TokenizerModel"],
    "model_type": "higgs_audio_v2_tokenizer",
    "dtype": "float32",
    "sample_rate": 24000,
    "semantic_sample_rate": 16000,
    "downsample_factor": 320,
    "codebook_size": ENTRIES,
    "codebook_dim": CODEBOOK_WIDTH,
    "kernel_size": 3,
    "unit_kernel_size": 3,
    "strides": [1, 1],
    "channel_ratios": [1, 1],
    "block_dilations": [1, 1],
    "target_bandwidths": [0.5, 1, 1.5, 2],
    "acoustic_model_config": ACOUSTIC_CONFIG,
    "semantic_model_config": SEMANTIC_CONFIG,
}

PREPROCESSOR_CONFIG: dict[str, Any] = {
    "feature_extractor_type": "DacFeatureExtractor",
    "feature_size": 1,
    "hop_length": ACOUSTIC_CONFIG["hop_length"],
    "sampling_rate": ACOUSTIC_CONFIG["sampling_rate"],
    "padding_side": "right",
    "padding_value": 0.0,
}


def base_tensors() -> Iterator[RandomTensor]:
    """Yield every tensor of the language model."""
    codes = CODEBOOKS * (ENTRIES + 1)
    yield _matrix("llm.embed_tokens.weight", TEXT_VOCABULARY, WIDTH)
    yield _constant("llm.norm.weight", WIDTH, 1.0)
    yield _matrix("audio_embeddings.weight", codes, WIDTH)
    yield _matrix("audio_heads.weight", codes, WIDTH)
    for layer in (f"llm.layers.{index}" for index in range(LAYERS)):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield _constant(f"{layer}.{norm}.weight", WIDTH, 1.0)
        for norm in ("q_norm", "k_norm"):
            yield _constant(f"{layer}.self_attn.{norm}.weight", HEAD_DIM, 1.0)
        yield _matrix(f"{layer}.self_attn.q_proj.weight", HEADS * HEAD_DIM, WIDTH)
        yield _matrix(f"{layer}.self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, WIDTH)
        yield _matrix(f"{layer}.self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, WIDTH)
        yield _matrix(f"{layer}.self_attn.o_proj.weight", WIDTH, HEADS * HEAD_DIM)
        yield _matrix(f"{layer}.mlp.gate_proj.weight", FFN_WIDTH, WIDTH)
        yield _matrix(f"{layer}.mlp.up_proj.weight", FFN_WIDTH, WIDTH)
        yield _matrix(f"{layer}.mlp.down_proj.weight", WIDTH, FFN_WIDTH)


def codec_tensors() -> Iterator[RandomTensor]:
    """Yield every tensor of the codec, scaled so that activations keep their size on the way through."""
    width = ACOUSTIC_CONFIG["hidden_size"]
    joint = width + SEMANTIC_CONFIG["hidden_size"]
    yield from _linear("fc", joint, joint, 0.03)
    yield from _linear("fc2", width, joint, 0.03)
    for book in (f"quantizer.quantizers.{index}" for index in range(CODEBOOKS)):
        yield RandomTensor(f"{book}.codebook.embed", (ENTRIES, CODEBOOK_WIDTH), 1.0)
        yield from _linear(f"{book}.project_in", CODEBOOK_WIDTH, joint, 0.03)
        yield from _linear(f"{book}.project_out", joint, CODEBOOK_WIDTH, 0.06)
    yield from _acoustic_encoder("acoustic_encoder")
    yield from _acoustic_decoder("acoustic_decoder")
    yield from _semantic_encoder("encoder_semantic")
    yield from _hubert("semantic_model")


def _matrix(name: str, rows: int, columns: int) -> RandomTensor:
    return RandomTensor(name, (rows, columns), MATRIX_STD)


def _constant(name: str, width: int, value: float) -> RandomTensor:
    return RandomTensor(name, (width,), mean=value)


def _linear(name: str, outputs: int, inputs: int, std: float) -> Iterator[RandomTensor]:
    yield RandomTensor(f"{name}.weight", (outputs, inputs), std)
    yield RandomTensor(f"{name}.bias", (outputs,), BIAS_STD)


def _layer_norm(name: str, width: int) -> Iterator[RandomTensor]:
    yield _constant(f"{name}.weight", width, 1.0)
    yield _constant(f"{name}.bias", width, 0.0)


def _kernel(name: str, outputs: int, inputs: int, kernel: int, gain: float) -> RandomTensor:
    return RandomTensor(f"{name}.weight", (outputs, inputs, kernel), gain * float(inputs * kernel) ** -0.5)


def _convolution(name: str, outputs: int, inputs: int, kernel: int, gain: float) -> Iterator[RandomTensor]:
    yield _kernel(name, outputs, inputs, kernel, gain)
    yield RandomTensor(f"{name}.bias", (outputs,), BIAS_STD)


def _snake(name: str, width: int) -> RandomTensor:
    return RandomTensor(f"{name}.alpha", (1, width, 1), ALPHA_STD, mean=1.0)


def _residual_units(block: str, width: int) -> Iterator[RandomTensor]:
    for unit in (f"{block}.res_unit{number}" for number in (1, 2, 3)):
        yield _snake(f"{unit}.snake1", width)
        yield from _convolution(f"{unit}.conv1", width, width, 7, 0.5)
        yield _snake(f"{unit}.snake2", width)
        yield from _convolution(f"{unit}.conv2", width, width, 1, 0.5)


def _acoustic_encoder(half: str) -> Iterator[RandomTensor]:
    width = ACOUSTIC_CONFIG["encoder_hidden_size"]
    yield from _convolution(f"{half}.conv1", width, 1, 7, 1.0)
    for index, stride in enumerate(ACOUSTIC_CONFIG["downsampling_ratios"]):
        block = f"{half}.block.{index}"
        yield from _residual_units(block, width)
        yield _snake(f"{block}.snake1", width)
        yield from _convolution(f"{block}.conv1", 2 * width, width, 2 * stride, 0.6)
        width *= 2
    yield _snake(f"{half}.snake1", width)
    yield from _convolution(f"{half}.conv2", ACOUSTIC_CONFIG["hidden_size"], width, 3, 0.6)


def _acoustic_decoder(half: str) -> Iterator[RandomTensor]:
    width = ACOUSTIC_CONFIG["decoder_hidden_size"]
    yield from _convolution(f"{half}.conv1", width, ACOUSTIC_CONFIG["hidden_size"], 7, 0.7)
    for index, stride in enumerate(ACOUSTIC_CONFIG["upsampling_ratios"]):
        block, outputs = f"{half}.block.{index}", width // 2
        yield _snake(f"{block}.snake1", width)
        # Each output hears two of the taps.
        yield RandomTensor(
            f"{block}.conv_t1.weight", (width, outputs, 2 * stride), 0.5 * float(2 * width) ** -0.5
        )
        yield RandomTensor(f"{block}.conv_t1.bias", (outputs,), BIAS_STD)
        yield from _residual_units(block, outputs)
        width = outputs
    yield _snake(f"{half}.snake1", width)
    yield from _convolution(f"{half}.conv2", 1, width, 7, 0.05)


def _semantic_encoder(prefix: str) -> Iterator[RandomTensor]:
    width, kernel = SEMANTIC_CONFIG["hidden_size"], CODEC_CONFIG["kernel_size"]
    yield _kernel(f"{prefix}.conv", width, width, kernel, 1.0)
    for index in range(len(CODEC_CONFIG["strides"])):
        block = f"{prefix}.conv_blocks.{index}"
        for unit in range(len(CODEC_CONFIG["block_dilations"])):
            yield _kernel(
                f"{block}.res_units.{unit}.conv1", width, width, CODEC_CONFIG["unit_kernel_size"], 0.5
            )
            yield _kernel(f"{block}.res_units.{unit}.conv2", width, width, 1, 0.5)
        yield from _convolution(f"{block}.conv", width, width, kernel, 1.0)


def _hubert(prefix: str) -> Iterator[RandomTensor]:
    sizes = SEMANTIC_CONFIG
    width, ffn_width, groups = (
        sizes[key] for key in ("hidden_size", "intermediate_size", "num_conv_pos_embedding_groups")
    )
    inputs, extractor = 1, f"{prefix}.feature_extractor.conv_layers"
    for index, (outputs, kernel) in enumerate(zip(sizes["conv_dim"], sizes["conv_kernel"], strict=True)):
        yield _kernel(f"{extractor}.{index}.conv", outputs, inputs, kernel, 1.4)
        inputs = outputs
    yield from _layer_norm(f"{extractor}.0.layer_norm", sizes["conv_dim"][0])
    yield from _layer_norm(f"{prefix}.feature_projection.layer_norm", inputs)
    yield from _linear(f"{prefix}.feature_projection.projection", width, inputs, 0.04)
    position = f"{prefix}.encoder.pos_conv_embed.conv"
    yield from _convolution(position, width, width // groups, sizes["num_conv_pos_embeddings"], 0.5)
    yield from _layer_norm(f"{prefix}.encoder.layer_norm", width)
    for layer in (f"{prefix}.encoder.layers.{index}" for index in range(sizes["num_hidden_layers"])):
        for part in ("q", "k", "v", "out"):
            yield from _linear(f"{layer}.attention.{part}_proj", width, width, 0.03)
        yield from _layer_norm(f"{layer}.layer_norm", width)
        yield from _linear(f"{layer}.feed_forward.intermediate_dense", ffn_width, width, 0.03)
        yield from _linear(f"{layer}.feed_forward.output_dense", width, ffn_width, 0.015)
        yield from _layer_norm(f"{layer}.final_layer_norm", width)
