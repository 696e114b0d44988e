"""Sizes and configurations of the tiny Qwen3-TTS checkpoints, as the public repositories spell them."""

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]

CODES = 64  # entries per codebook (real: 2048)
VOCAB = CODES + 1024  # the reference hard-codes "the last 1024 ids are not codes"
SHIFT = CODES - 2048  # real id + SHIFT = tiny id

LANGS = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
SPEAKER_DIALECT = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


@dataclass(frozen=True)
class Decoder:
    """Sizes of a Qwen3 decoder."""

    width: int
    ffn_width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Variant:
    """A checkpoint: what the real one says of its size and kind, and the tiny sizes."""

    size: str
    kind: str
    text_width: int
    talker: Decoder
    predictor: Decoder


VARIANTS = {
    # Every row that can be quantised is a multiple of 256, as K-quants need; both decoders are equally wide.
    "Qwen3-TTS-12Hz-0.6B-Base": Variant(
        "0b6", "base", 512, Decoder(256, 512, 2, 4, 2, 64), Decoder(256, 256, 2, 4, 2, 64)
    ),
    "Qwen3-TTS-12Hz-0.6B-CustomVoice": Variant(
        "0b6", "custom_voice", 128, Decoder(64, 192, 3, 4, 2, 32), Decoder(64, 192, 2, 4, 2, 32)
    ),
    "Qwen3-TTS-12Hz-1.7B-Base": Variant(
        "1b7", "base", 128, Decoder(128, 384, 3, 4, 2, 64), Decoder(64, 192, 2, 4, 2, 32)
    ),
    # Rows of the talker are multiples of 256, those of the predictor 128: K-quants and what stands in for them.
    "Qwen3-TTS-12Hz-1.7B-CustomVoice": Variant(
        "1b7", "custom_voice", 256, Decoder(256, 256, 2, 4, 2, 64), Decoder(128, 256, 2, 4, 2, 32)
    ),
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign": Variant(
        "1b7", "voice_design", 128, Decoder(128, 384, 3, 4, 2, 64), Decoder(64, 192, 2, 4, 2, 32)
    ),
}

GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


def mrope(head_dim: int) -> list[int]:
    """Return how many rotations of a head each of three kinds of positions has."""
    half = head_dim // 2
    first = half * 24 // 64
    other = (half - first) // 2
    return [half - 2 * other, other, other]


def encoder_config() -> Config:
    """Return the sizes of the codec's encoder."""
    return dict(
        audio_channels=1,
        codebook_dim=32,
        codebook_size=CODES,
        compress=2,
        dilation_growth_rate=2,
        frame_rate=12.5,
        head_dim=16,
        hidden_act="gelu",
        hidden_size=64,
        intermediate_size=128,
        kernel_size=7,
        last_kernel_size=3,
        layer_scale_initial_scale=0.01,
        max_position_embeddings=8000,
        norm_eps=1e-5,
        num_attention_heads=4,
        num_filters=4,
        num_hidden_layers=2,
        num_key_value_heads=4,
        num_quantizers=32,
        num_residual_layers=1,
        num_semantic_quantizers=1,
        pad_mode="constant",
        residual_kernel_size=3,
        rope_theta=10000.0,
        sampling_rate=24000,
        sliding_window=250,
        trim_right_ratio=1.0,
        upsample_groups=64,
        upsampling_ratios=[8, 6, 5, 4],
        use_causal_conv=True,
        use_conv_shortcut=False,
        vector_quantization_hidden_dimension=32,
    )


def decoder_config() -> Config:
    """Return the sizes of the codec's decoder."""
    return dict(
        attention_bias=False,
        attention_dropout=0.0,
        codebook_dim=64,
        codebook_size=CODES,
        decoder_dim=32,
        head_dim=16,
        hidden_act="silu",
        hidden_size=32,
        intermediate_size=64,
        latent_dim=64,
        layer_scale_initial_scale=0.01,
        max_position_embeddings=8000,
        num_attention_heads=4,
        num_hidden_layers=2,
        num_key_value_heads=4,
        num_quantizers=16,
        num_semantic_quantizers=1,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        semantic_codebook_size=2 * CODES,
        sliding_window=72,
        upsample_rates=[8, 5, 4, 3],
        upsampling_ratios=[2, 2],
        vector_quantization_hidden_dimension=64,
    )


def predictor_config(sizes: Decoder) -> Config:
    """Return what a checkpoint says of its code predictor."""
    return dict(
        attention_bias=False,
        attention_dropout=0,
        head_dim=sizes.head_dim,
        hidden_act="silu",
        hidden_size=sizes.width,
        initializer_range=0.02,
        intermediate_size=sizes.ffn_width,
        layer_types=["full_attention"] * sizes.layers,
        max_position_embeddings=65536,
        max_window_layers=28,
        num_attention_heads=sizes.heads,
        num_code_groups=16,
        num_hidden_layers=sizes.layers,
        num_key_value_heads=sizes.kv_heads,
        rms_norm_eps=1e-6,
        rope_scaling=None,
        rope_theta=1000000,
        sliding_window=None,
        use_cache=True,
        use_sliding_window=False,
        vocab_size=CODES,
    )


def voices(kind: str) -> tuple[Config, Config, Config]:
    """Return the ids of languages and speakers, and the dialects of these."""
    languages = {name: number + SHIFT for name, number in LANGS.items()}
    if kind != "custom_voice":
        return languages, {}, {}
    languages |= {name: number + SHIFT for name, number in DIALECTS.items()}
    speakers = {name: number + SHIFT for name, number in SPEAKERS.items()}
    return languages, speakers, {name: SPEAKER_DIALECT.get(name, False) for name in SPEAKERS}


def talker_config(variant: Variant, text_tokens: int) -> Config:
    """Return what a checkpoint says of its talker."""
    sizes = variant.talker
    languages, speakers, dialects = voices(variant.kind)
    return dict(
        attention_bias=False,
        attention_dropout=0,
        code_predictor_config=predictor_config(variant.predictor),
        codec_bos_id=2149 + SHIFT,
        codec_eos_token_id=2150 + SHIFT,
        codec_think_id=2154 + SHIFT,
        codec_language_id=languages,
        codec_nothink_id=2155 + SHIFT,
        codec_pad_id=2148 + SHIFT,
        codec_think_bos_id=2156 + SHIFT,
        codec_think_eos_id=2157 + SHIFT,
        spk_id=speakers,
        spk_is_dialect=dialects,
        head_dim=sizes.head_dim,
        hidden_act="silu",
        hidden_size=sizes.width,
        initializer_range=0.02,
        intermediate_size=sizes.ffn_width,
        max_position_embeddings=32768,
        num_attention_heads=sizes.heads,
        num_code_groups=16,
        num_hidden_layers=sizes.layers,
        num_key_value_heads=sizes.kv_heads,
        position_id_per_seconds=13,
        rms_norm_eps=1e-6,
        rope_scaling={
            "interleaved": True,
            "mrope_section": mrope(sizes.head_dim),
            "rope_type": "default",
            "type": "default",
        },
        rope_theta=1000000,
        sliding_window=None,
        text_hidden_size=variant.text_width,
        text_vocab_size=(text_tokens + 63) // 64 * 64,
        use_cache=True,
        use_sliding_window=False,
        vocab_size=VOCAB,
    )


def speaker_config(width: int) -> Config:
    """Return what a checkpoint says of its speaker encoder."""
    return dict(
        mel_dim=128,
        enc_dim=width,
        enc_channels=[32, 32, 32, 32, 96],
        enc_kernel_sizes=[5, 3, 3, 3, 1],
        enc_dilations=[1, 2, 3, 4, 1],
        enc_attention_channels=16,
        enc_res2net_scale=8,
        enc_se_channels=16,
        sample_rate=24000,
    )


def general_config(variant: Variant, ids: dict[str, int]) -> Config:
    """Return what a checkpoint says of itself."""
    return dict(
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size=variant.size,
        tts_model_type=variant.kind,
        im_start_token_id=ids["<|im_start|>"],
        im_end_token_id=ids["<|im_end|>"],
        tts_pad_token_id=ids["<tts_pad>"],
        tts_bos_token_id=ids["<tts_text_bos>"],
        tts_eos_token_id=ids["<tts_text_eod>"],
        assistant_token_id=ids["assistant"],
    )


def published_config(general: Config, talker: Config, speaker: Config) -> Config:
    """Return a configuration as the public repositories spell it."""
    names = (
        "assistant_token_id",
        "im_end_token_id",
        "im_start_token_id",
        "tts_bos_token_id",
        "tts_eos_token_id",
        "tts_pad_token_id",
    )
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        **{name: general[name] for name in names},
    }
    config["model_type"] = "qwen3_tts"
    config |= {name: general[name] for name in ("tokenizer_type", "tts_model_size", "tts_model_type")}
    config["dtype"] = "bfloat16"
    if general["tts_model_type"] == "base":
        config["speaker_encoder_config"] = speaker
    predictor = dict(talker["code_predictor_config"], model_type="qwen3_tts_talker_code_predictor")
    config["talker_config"] = dict(talker, model_type="qwen3_tts_talker", code_predictor_config=predictor)
    config["transformers_version"] = "4.57.3"
    return config
