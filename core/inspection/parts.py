"""Which part of a model a tensor belongs to, by its name."""

from __future__ import annotations

from collections.abc import Mapping

PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "qwen3-tts": (
        ("talker.text_embd", "text embedding"),
        ("talker.text_proj", "text projection"),
        ("talker.", "talker"),
        ("code_pred.", "code predictor"),
        ("spk_enc.", "speaker encoder"),
    ),
    "qwen3-tts-tokenizer": (
        ("tok_enc.vq_", "codebooks of the encoder"),
        ("tok_enc.", "encoder"),
        ("tok_dec.vq_", "codebooks of the decoder"),
        ("tok_dec.", "decoder"),
    ),
    "omnivoice-lm": (
        ("llm.embed_tokens", "text embedding"),
        ("llm.", "language model"),
        ("audio_", "audio embeddings and heads"),
    ),
    "omnivoice-tokenizer": (
        ("semantic_model.", "HuBERT"),
        ("encoder_semantic.", "semantic encoder"),
        ("acoustic_encoder.", "acoustic encoder"),
        ("acoustic_decoder.", "acoustic decoder"),
        ("quantizer.", "codebooks"),
        ("fc", "projections"),
    ),
}


def part_of(architecture: str, name: str) -> str:
    """Return the part of a model that a tensor belongs to; of an unknown architecture the first word of its name."""
    for prefix, part in PARTS.get(architecture, ()):
        if name.startswith(prefix):
            return part
    return "other" if architecture in PARTS else name.partition(".")[0]
