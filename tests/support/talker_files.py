"""Descriptions of talkers that exist in no file."""

from __future__ import annotations

from typing import Any

from ggtts.core.formats.qwen import (
    GenerationDefaults,
    Speaker,
    SpecialTokens,
    TalkerFile,
    TransformerSizes,
)

SIZES = TransformerSizes(
    layers=2, width=8, ffn_width=16, heads=2, kv_heads=1, head_dim=4, rope_theta=1e6, norm_eps=1e-6
)

TOKENS = SpecialTokens(
    codec_pad=1064,
    codec_begin=1065,
    codec_end=1066,
    codec_think=1070,
    codec_no_think=1071,
    codec_think_begin=1072,
    codec_think_end=1073,
    message_begin=501,
    message_end=502,
    speech_pad=510,
    speech_begin=511,
    speech_end=512,
    text_end=500,
)

NO_DEFAULTS = GenerationDefaults(*[None] * 9)


def talker_file(model_type: str = "custom_voice", **changes: Any) -> TalkerFile:
    """A talker of four codebooks of 40 entries; three languages, one of them a dialect, and two speakers."""
    values: dict[str, Any] = {
        "name": "test",
        "model_size": "1.7b",
        "model_type": model_type,
        "file_type": "F32",
        "codebooks": 4,
        "talker": SIZES,
        "code_predictor": SIZES,
        "vocabulary": 40 + 1024,
        "text_vocabulary": 520,
        "text_width": 8,
        "codebook_entries": 40,
        "context_length": 100,
        "tokens": TOKENS,
        "languages": {"chinese": 55, "english": 50, "Sichuan_dialect": 62},
        "speakers": {"serena": Speaker(900, ""), "Eric": Speaker(901, "Sichuan_dialect")},
        "generation": NO_DEFAULTS,
        "speaker_encoder": None,
    }
    if model_type != "custom_voice":
        values["speakers"] = {}
    return TalkerFile(**{**values, **changes})
