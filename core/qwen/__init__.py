"""Qwen3-TTS: text to frames of codes (talker, code predictor) to samples (codec)."""
