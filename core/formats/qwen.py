"""Sizes, ids and defaults of Qwen3-TTS GGUF files: a talker (`qwen3-tts`) and its codec (`qwen3-tts-tokenizer`).

Everything a model needs to be built comes from here and from tensor shapes; nothing is a constant of one checkpoint.
Keys that every converter writes are required; where the C++ loader accepts a missing key as zero, so do these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError
from .gguf_types import file_type_name
from .metadata import Keys, require_architecture, require_frames, require_halvings

TALKER_ARCHITECTURE = "qwen3-tts"
CODEC_ARCHITECTURE = "qwen3-tts-tokenizer"


@dataclass(frozen=True)
class TransformerSizes:
    """Sizes of one transformer stack. `window` is how many positions attention sees, 0 for all of them."""

    layers: int
    width: int
    ffn_width: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    window: int = 0


@dataclass(frozen=True)
class SpecialTokens:
    """Ids with a meaning: `codec_*` among the codec's, the others among the text tokenizer's."""

    codec_pad: int
    codec_begin: int
    codec_end: int
    codec_think: int
    codec_no_think: int
    codec_think_begin: int
    codec_think_end: int
    message_begin: int
    message_end: int
    speech_pad: int
    speech_begin: int
    speech_end: int
    text_end: int | None


@dataclass(frozen=True)
class Speaker:
    """A built-in voice: its codec id, and the dialect it speaks (a key of the languages, or empty)."""

    id: int
    dialect: str


@dataclass(frozen=True)
class GenerationDefaults:
    """Sampling defaults that the file brings; None for those it does not state."""

    do_sample: bool | None
    top_k: int | None
    top_p: float | None
    temperature: float | None
    repetition_penalty: float | None
    sub_do_sample: bool | None
    sub_top_k: int | None
    sub_top_p: float | None
    sub_temperature: float | None


@dataclass(frozen=True)
class SpeakerEncoderSizes:
    """The network that turns reference audio into a voice: width of its vector, and the rate it listens at."""

    width: int
    sample_rate: int


@dataclass(frozen=True)
class TalkerFile:
    """A talker file. `codebooks` counts the codes of a frame, the talker's own one included.

    `model_size` is spelt "0.6b", `model_type` is "base", "custom_voice" or "voice_design", `file_type` is "Q8_0"
    and the like.
    """

    name: str
    model_size: str
    model_type: str
    file_type: str
    codebooks: int
    talker: TransformerSizes
    code_predictor: TransformerSizes
    vocabulary: int
    text_vocabulary: int
    text_width: int
    codebook_entries: int
    context_length: int
    tokens: SpecialTokens
    languages: dict[str, int]
    speakers: dict[str, Speaker]
    generation: GenerationDefaults
    speaker_encoder: SpeakerEncoderSizes | None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], where: str = "talker file") -> TalkerFile:
        """Read a talker's metadata; `where` names the file in errors.

        Raises ModelFileError for another architecture, and for missing or impossible values.
        """
        require_architecture(metadata, TALKER_ARCHITECTURE, where)
        keys = Keys(metadata, where, f"{TALKER_ARCHITECTURE}.")
        codebooks = keys.count("num_code_groups")
        if codebooks < 2:
            raise ModelFileError(f"{where}: states {codebooks} codebooks, but a talker has at least 2")
        talker, predictor = keys.under("talker."), keys.under("code_pred.")
        return cls(
            name=str(metadata.get("general.name", "")),
            model_size=plain_size(keys.text("model_size", "")),
            model_type=keys.text("model_type"),
            file_type=file_type_name(metadata),
            codebooks=codebooks,
            talker=decoder_stack(talker),
            code_predictor=decoder_stack(predictor),
            vocabulary=talker.size("vocab_size"),
            text_vocabulary=talker.size("text_vocab_size"),
            text_width=talker.size("text_hidden_size"),
            codebook_entries=predictor.size("vocab_size"),
            context_length=max(0, talker.integer("context_length", 0)),
            tokens=_special_tokens(keys, metadata),
            languages=_languages(keys.under("codec."), talker.size("vocab_size")),
            speakers=_speakers(keys.under("codec."), talker.size("vocab_size")),
            generation=_generation(Keys(metadata, where, "generation.")),
            speaker_encoder=_speaker_encoder(keys.under("spk_enc.")),
        )


def plain_size(tag: str) -> str:
    """Return a size tag in its plain spelling: files say "0b6" or "0.6b", this is always "0.6b"."""
    return re.sub(r"^(\d+)b(\d+)$", r"\1.\2b", tag.lower())


def decoder_stack(keys: Keys) -> TransformerSizes:
    """Return the sizes of a Qwen3 decoder."""
    heads, kv_heads = keys.size("attention.head_count"), keys.size("attention.head_count_kv")
    require_shared_heads(keys, heads, kv_heads)
    return TransformerSizes(
        layers=keys.count("block_count"),
        width=keys.size("embedding_length"),
        ffn_width=keys.size("feed_forward_length"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=even_size(keys, "attention.key_length"),
        rope_theta=keys.positive("rope.freq_base"),
        norm_eps=keys.positive("attention.layer_norm_rms_epsilon"),
    )


def require_shared_heads(keys: Keys, heads: int, kv_heads: int) -> None:
    """Raise ModelFileError unless every key head serves equally many query heads."""
    if heads % kv_heads:
        raise ModelFileError(
            f"{keys.where}: {keys.prefix}* states {heads} query heads, which {kv_heads} key heads cannot share"
        )


def even_size(keys: Keys, key: str) -> int:
    """Return a head size: rotary embeddings turn its values in pairs."""
    size = keys.size(key)
    if size % 2:
        raise ModelFileError(f"{keys.where}: {keys.prefix}{key} is {size}, but must be even")
    return size


def _special_tokens(keys: Keys, metadata: Mapping[str, Any]) -> SpecialTokens:
    codec, text = keys.under("codec."), keys.under("text.")
    codes, words = keys.size("talker.vocab_size"), keys.size("talker.text_vocab_size")
    return SpecialTokens(
        codec_pad=codec.token("pad_id", codes),
        codec_begin=codec.token("bos_id", codes),
        codec_end=codec.token("eos_id", codes),
        codec_think=codec.token("think_id", codes),
        codec_no_think=codec.token("nothink_id", codes),
        codec_think_begin=codec.token("think_bos_id", codes),
        codec_think_end=codec.token("think_eos_id", codes),
        message_begin=text.token("im_start_id", words),
        message_end=text.token("im_end_id", words),
        speech_pad=text.token("tts_pad_id", words),
        speech_begin=text.token("tts_bos_id", words),
        speech_end=text.token("tts_eos_id", words),
        text_end=Keys(metadata, keys.where, "tokenizer.ggml.").optional_integer("eos_token_id"),
    )


def _languages(codec: Keys, tokens: int) -> dict[str, int]:
    names, ids = codec.texts("language_names"), codec.integers("language_ids")
    if len(names) != len(ids):
        raise ModelFileError(f"{codec.where}: names {len(names)} languages, but has {len(ids)} language ids")
    _require_tokens(codec, "language_ids", ids, tokens)
    return dict(zip(names, ids, strict=True))


def _speakers(codec: Keys, tokens: int) -> dict[str, Speaker]:
    names, ids = codec.texts("speaker_names"), codec.integers("speaker_ids")
    dialects = codec.texts("speaker_dialects") or ("",) * len(names)
    if not len(names) == len(ids) == len(dialects):
        raise ModelFileError(
            f"{codec.where}: names {len(names)} speakers, but has {len(ids)} ids and {len(dialects)} dialects"
        )
    _require_tokens(codec, "speaker_ids", ids, tokens)
    voices = (Speaker(number, dialect) for number, dialect in zip(ids, dialects, strict=True))
    return dict(zip(names, voices, strict=True))


def _require_tokens(codec: Keys, key: str, ids: tuple[int, ...], tokens: int) -> None:
    if ids and not 0 <= min(ids) <= max(ids) < tokens:
        raise ModelFileError(
            f"{codec.where}: {codec.prefix}{key} range from {min(ids)} to {max(ids)}, but must be below {tokens}"
        )


def _generation(keys: Keys) -> GenerationDefaults:
    return GenerationDefaults(
        do_sample=keys.optional_flag("do_sample"),
        top_k=keys.optional_integer("top_k"),
        top_p=keys.optional_number("top_p"),
        temperature=keys.optional_number("temperature"),
        repetition_penalty=keys.optional_number("repetition_penalty"),
        sub_do_sample=keys.optional_flag("subtalker_do_sample"),
        sub_top_k=keys.optional_integer("subtalker_top_k"),
        sub_top_p=keys.optional_number("subtalker_top_p"),
        sub_temperature=keys.optional_number("subtalker_temperature"),
    )


def _speaker_encoder(keys: Keys) -> SpeakerEncoderSizes | None:
    if keys.integer("embedding_length", 0) == 0:
        return None
    return SpeakerEncoderSizes(keys.size("embedding_length"), keys.rate("sample_rate"))


@dataclass(frozen=True)
class CodecDecoderSizes:
    """Codes to samples: quantizer, transformer (`window` is its sliding window), upsampling, DAC decoder.

    `codebook_width` is what the two quantizers project to, `codebook_inner_width` the width of an entry.
    `channels` is the DAC decoder's first width; it halves with each of `dac_strides`.
    """

    latent_width: int
    codebook_width: int
    codebook_inner_width: int
    codebook_entries: int
    quantizers: int
    semantic_quantizers: int
    transformer: TransformerSizes
    upsample_strides: tuple[int, ...]
    dac_strides: tuple[int, ...]
    channels: int


@dataclass(frozen=True)
class CodecEncoderSizes:
    """Samples to codes: SEANet, transformer, downsampling, quantizer (Mimi, arXiv 2410.00037).

    `strides` are in the order in which they are applied. `quantizers` counts those of the checkpoint;
    `CodecFile.codebooks` of them are in use.
    """

    filters: int
    kernel: int
    last_kernel: int
    residual_kernel: int
    residual_layers: int
    dilation_growth: int
    compress: int
    strides: tuple[int, ...]
    transformer: TransformerSizes
    codebook_width: int
    codebook_entries: int
    quantizers: int
    semantic_quantizers: int


@dataclass(frozen=True)
class CodecFile:
    """A codec file: rates in Hz, samples per frame of codes, codes per frame, and both halves."""

    name: str
    file_type: str
    input_sample_rate: int
    sample_rate: int
    encoder_frame_samples: int
    frame_samples: int
    codebooks: int
    decoder: CodecDecoderSizes
    encoder: CodecEncoderSizes

    @property
    def frame_rate(self) -> float:
        """Frames per second of audio (12.5)."""
        return self.sample_rate / self.frame_samples

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], where: str = "codec file") -> CodecFile:
        """Read a codec's metadata; `where` names the file in errors.

        Raises ModelFileError for another architecture, and for missing or impossible values.
        """
        require_architecture(metadata, CODEC_ARCHITECTURE, where)
        keys = Keys(metadata, where, f"{CODEC_ARCHITECTURE}.")
        file = cls(
            name=str(metadata.get("general.name", "")),
            file_type=file_type_name(metadata),
            input_sample_rate=keys.rate("input_sample_rate"),
            sample_rate=keys.rate("output_sample_rate"),
            encoder_frame_samples=keys.size("encode_downsample_rate"),
            frame_samples=keys.size("decode_upsample_rate"),
            codebooks=keys.count("encoder_valid_num_quantizers"),
            decoder=_codec_decoder(keys.under("decoder.")),
            encoder=_codec_encoder(keys.under("encoder.")),
        )
        _require_consistent(file, where)
        return file


def _require_consistent(file: CodecFile, where: str) -> None:
    """Check what one size of a codec says about another."""
    decoder, encoder = file.decoder, file.encoder
    strides = (*decoder.upsample_strides, *decoder.dac_strides)
    require_frames(strides, file.frame_samples, where, "decoder")
    require_frames(encoder.strides, file.encoder_frame_samples, where, "encoder", exact=False)
    require_halvings(decoder.channels, len(decoder.dac_strides), where)
    for half, total, semantic in (
        ("decoder", decoder.quantizers, decoder.semantic_quantizers),
        ("encoder", min(encoder.quantizers, file.codebooks), encoder.semantic_quantizers),
    ):
        if total != file.codebooks or semantic >= total:
            raise ModelFileError(
                f"{where}: the {half} has {total} codebooks, {semantic} semantic, but frames have {file.codebooks}"
            )


def _codec_stack(keys: Keys, norm_key: str, window: int) -> TransformerSizes:
    heads, kv_heads = keys.size("num_attention_heads"), keys.size("num_key_value_heads")
    require_shared_heads(keys, heads, kv_heads)
    return TransformerSizes(
        layers=keys.count("num_hidden_layers"),
        width=keys.size("hidden_size"),
        ffn_width=keys.size("intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=even_size(keys, "head_dim"),
        rope_theta=keys.positive("rope_theta"),
        norm_eps=keys.positive(norm_key),
        window=window,
    )


def _codec_decoder(keys: Keys) -> CodecDecoderSizes:
    return CodecDecoderSizes(
        latent_width=keys.size("latent_dim"),
        codebook_width=keys.size("codebook_dim"),
        codebook_inner_width=keys.size("codebook_dim_internal"),
        codebook_entries=keys.size("codebook_size"),
        quantizers=keys.count("num_quantizers"),
        semantic_quantizers=keys.count("num_semantic_quantizers"),
        transformer=_codec_stack(keys, "rms_norm_eps", keys.window("sliding_window")),
        upsample_strides=keys.sizes("upsampling_ratios"),
        dac_strides=keys.sizes("upsample_rates"),
        channels=keys.size("decoder_dim"),
    )


def _codec_encoder(keys: Keys) -> CodecEncoderSizes:
    return CodecEncoderSizes(
        filters=keys.size("num_filters"),
        kernel=keys.size("kernel_size"),
        last_kernel=keys.size("last_kernel_size"),
        residual_kernel=keys.size("residual_kernel_size"),
        residual_layers=keys.count("num_residual_layers"),
        dilation_growth=keys.size("dilation_growth_rate"),
        compress=keys.size("compress"),
        strides=keys.sizes("upsampling_ratios")[::-1],
        transformer=_codec_stack(keys, "norm_eps", window=0),
        codebook_width=keys.size("codebook_dim"),
        codebook_entries=keys.size("codebook_size"),
        quantizers=keys.count("num_quantizers"),
        semantic_quantizers=keys.count("num_semantic_quantizers"),
    )
