"""Sizes, tensors and metadata of the published Qwen3-TTS talkers (Base, 12 Hz)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from random_weights import RandomTensor
from synthetic_tokenizer import SyntheticTokenizer

from ggtts.core.convert.plan import Metadata

CODEBOOKS, ENTRIES, VOCABULARY, END_OF_SPEECH = 16, 2048, 3072, 2150
TEXT_VOCABULARY, TEXT_WIDTH = 151936, 2048
CODEC_IDS = {
    "pad": 2148,
    "bos": 2149,
    "eos": END_OF_SPEECH,
    "think": 2154,
    "nothink": 2155,
    "think_bos": 2156,
}
CODEC_IDS["think_eos"] = 2157
TEXT_IDS = {"im_start": 151644, "im_end": 151645, "tts_pad": 151671, "tts_bos": 151672, "tts_eos": 151673}
LANGUAGES = {"chinese": 2055, "english": 2050}
SPEAKER_CHANNELS, SPEAKER_POOLED, SPEAKER_ATTENTION, MEL_BANDS = 512, 1536, 128, 128
MATRIX_STD, BIAS_STD = 0.02, 0.01


@dataclass(frozen=True)
class StackSizes:
    """One stack of Qwen3 layers."""

    width: int
    ffn_width: int
    layers: int
    vocabulary: int
    context: int
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128


@dataclass(frozen=True)
class TalkerSizes:
    """A talker with its code predictor."""

    label: str
    stored_label: str
    talker: StackSizes
    predictor: StackSizes = StackSizes(1024, 3072, 5, ENTRIES, 65536)


TALKERS = {
    "0.6b": TalkerSizes("0.6B", "0b6", StackSizes(1024, 3072, 28, VOCABULARY, 32768)),
    "1.7b": TalkerSizes("1.7B", "1b7", StackSizes(2048, 6144, 28, VOCABULARY, 32768)),
}


def talker_tensors(sizes: TalkerSizes) -> Iterator[RandomTensor]:
    """Yield every tensor. The row of the end-of-speech code is zero, so that no utterance ends by chance."""
    width, predictor = sizes.talker.width, sizes.predictor
    yield _matrix("talker.text_embd.weight", TEXT_VOCABULARY, TEXT_WIDTH)
    yield _matrix("talker.codec_embd.weight", VOCABULARY, width)
    yield from _affine("talker.text_proj.fc1", TEXT_WIDTH, TEXT_WIDTH)
    yield from _affine("talker.text_proj.fc2", width, TEXT_WIDTH)
    yield RandomTensor("talker.codec_head.weight", (VOCABULARY, width), MATRIX_STD, zero_row=END_OF_SPEECH)
    yield from _stack("talker", sizes.talker)
    if width != predictor.width:
        yield from _affine("code_pred.mtp_proj", predictor.width, width)
    for codebook in range(CODEBOOKS - 1):
        yield _matrix(f"code_pred.codec_embd.{codebook}.weight", ENTRIES, width)
        yield _matrix(f"code_pred.lm_head.{codebook}.weight", ENTRIES, predictor.width)
    yield from _stack("code_pred", predictor)
    yield from _speaker_encoder(width)


def _matrix(name: str, rows: int, columns: int) -> RandomTensor:
    return RandomTensor(name, (rows, columns), MATRIX_STD)


def _affine(name: str, rows: int, columns: int) -> Iterator[RandomTensor]:
    yield _matrix(f"{name}.weight", rows, columns)
    yield RandomTensor(f"{name}.bias", (rows,), BIAS_STD)


def _stack(prefix: str, sizes: StackSizes) -> Iterator[RandomTensor]:
    inner, outer = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    for layer in range(sizes.layers):
        block = f"{prefix}.blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            yield RandomTensor(f"{block}{norm}.weight", (sizes.width,), mean=1.0)
        for norm in ("attn_q_norm", "attn_k_norm"):
            yield RandomTensor(f"{block}{norm}.weight", (sizes.head_dim,), mean=1.0)
        yield _matrix(f"{block}attn_q.weight", inner, sizes.width)
        yield _matrix(f"{block}attn_k.weight", outer, sizes.width)
        yield _matrix(f"{block}attn_v.weight", outer, sizes.width)
        yield _matrix(f"{block}attn_output.weight", sizes.width, inner)
        yield _matrix(f"{block}ffn_gate.weight", sizes.ffn_width, sizes.width)
        yield _matrix(f"{block}ffn_up.weight", sizes.ffn_width, sizes.width)
        yield _matrix(f"{block}ffn_down.weight", sizes.width, sizes.ffn_width)
    yield RandomTensor(f"{prefix}.output_norm.weight", (sizes.width,), mean=1.0)


def _speaker_encoder(width: int) -> Iterator[RandomTensor]:
    channels, pooled, attention = SPEAKER_CHANNELS, SPEAKER_POOLED, SPEAKER_ATTENTION
    yield from _convolution("spk_enc.conv0", channels, MEL_BANDS, 5)
    for block in (1, 2, 3):
        yield from _convolution(f"spk_enc.blk.{block}.tdnn1", channels, channels, 1)
        for part in range(7):
            yield from _convolution(f"spk_enc.blk.{block}.res2net.{part}", channels // 8, channels // 8, 3)
        yield from _convolution(f"spk_enc.blk.{block}.tdnn2", channels, channels, 1)
        yield from _convolution(f"spk_enc.blk.{block}.se.conv1", attention, channels, 1)
        yield from _convolution(f"spk_enc.blk.{block}.se.conv2", channels, attention, 1)
    yield from _convolution("spk_enc.mfa", pooled, pooled, 1)
    yield from _convolution("spk_enc.asp.tdnn", attention, 3 * pooled, 1)
    yield from _convolution("spk_enc.asp.conv", pooled, attention, 1)
    yield from _convolution("spk_enc.fc", width, 2 * pooled, 1)


def _convolution(name: str, outputs: int, inputs: int, kernel: int) -> Iterator[RandomTensor]:
    yield RandomTensor(f"{name}.weight", (outputs, inputs, kernel), (inputs * kernel) ** -0.5)
    yield RandomTensor(f"{name}.bias", (outputs,), BIAS_STD)


def talker_metadata(sizes: TalkerSizes, tokenizer: SyntheticTokenizer) -> Metadata:
    """Return the keys of the file, in the published values."""
    metadata = Metadata()
    own = metadata.under("qwen3-tts.")
    own.text("tokenizer_type", "qwen3_tts_tokenizer_12hz")
    own.text("model_size", sizes.stored_label)
    own.text("model_type", "base")
    own.integer("num_code_groups", CODEBOOKS)
    _stack_metadata(own.under("talker."), sizes.talker)
    own.integer("talker.text_vocab_size", TEXT_VOCABULARY)
    own.integer("talker.text_hidden_size", TEXT_WIDTH)
    own.integer("talker.position_id_per_seconds", 13)
    own.integers("talker.rope.mrope_section", [24, 20, 20])
    own.flag("talker.mrope_interleaved", True)
    _stack_metadata(own.under("code_pred."), sizes.predictor)
    own.integer("spk_enc.embedding_length", sizes.talker.width)
    own.integer("spk_enc.sample_rate", 24000)
    for role, token in CODEC_IDS.items():
        own.integer(f"codec.{role}_id", token)
    own.texts("codec.language_names", list(LANGUAGES))
    own.integers("codec.language_ids", list(LANGUAGES.values()))
    for role, token in TEXT_IDS.items():
        own.integer(f"text.{role}_id", token)
    _generation_metadata(metadata.under("generation."))
    text = metadata.under("tokenizer.ggml.")
    text.text("model", "gpt2")
    text.texts("tokens", tokenizer.tokens)
    text.integers("token_type", tokenizer.types)
    text.texts("merges", tokenizer.merges)
    text.integer("eos_token_id", tokenizer.tokens.index("<|endoftext|>"))
    return metadata


def _stack_metadata(metadata: Metadata, sizes: StackSizes) -> None:
    metadata.integer("embedding_length", sizes.width)
    metadata.integer("feed_forward_length", sizes.ffn_width)
    metadata.integer("block_count", sizes.layers)
    metadata.integer("attention.head_count", sizes.heads)
    metadata.integer("attention.head_count_kv", sizes.kv_heads)
    metadata.integer("attention.key_length", sizes.head_dim)
    metadata.integer("vocab_size", sizes.vocabulary)
    metadata.integer("context_length", sizes.context)
    metadata.number("rope.freq_base", 1e6)
    metadata.number("attention.layer_norm_rms_epsilon", 1e-6)


def _generation_metadata(metadata: Metadata) -> None:
    for prefix in ("", "subtalker_"):
        metadata.flag(f"{prefix}do_sample", True)
        metadata.integer(f"{prefix}top_k", 50)
        metadata.number(f"{prefix}top_p", 1.0)
        metadata.number(f"{prefix}temperature", 0.9)
    metadata.number("repetition_penalty", 1.05)
    metadata.integer("max_new_tokens", 8192)
