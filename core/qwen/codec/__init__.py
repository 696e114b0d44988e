"""The Qwen3-TTS codec at 12.5 frames per second: 16 codes per frame, 24 kHz mono."""

from __future__ import annotations

from .batch import CodecBatch
from .decoder import CodecDecoder, DecoderSnapshot, DecoderStream
from .encoder import CodecEncoder
from .shared_lane import AnyDecoderStream, SharedLane

__all__ = [
    "AnyDecoderStream",
    "CodecBatch",
    "CodecDecoder",
    "CodecEncoder",
    "DecoderSnapshot",
    "DecoderStream",
    "SharedLane",
]
