"""The Qwen3-TTS codec at 12.5 frames per second: 16 codes per frame, 24 kHz mono."""

from __future__ import annotations

from .batch import BatchStream, CodecBatch
from .decoder import CodecDecoder, DecoderStream
from .encoder import CodecEncoder
from .lanes import DecoderSnapshot

__all__ = [
    "BatchStream",
    "CodecBatch",
    "CodecDecoder",
    "CodecEncoder",
    "DecoderSnapshot",
    "DecoderStream",
]
