"""The tiny codec, opened once per worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.engine import Engine, Weights
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecDecoder, CodecEncoder


@pytest.fixture(scope="session")
def codec_weights(engine: Engine, tiny_gguf: Callable[..., Path]) -> Weights:
    return engine.weights(tiny_gguf())


@pytest.fixture(scope="session")
def codec_file(codec_weights: Weights) -> CodecFile:
    return CodecFile.from_metadata(codec_weights.metadata)


@pytest.fixture(scope="session")
def decoder(codec_weights: Weights, codec_file: CodecFile, engine: Engine) -> CodecDecoder:
    """A decoder that takes at most 8 frames at once, so that short sequences run in several pieces."""
    return CodecDecoder(codec_weights, codec_file, engine, widest=8)


@pytest.fixture(scope="session")
def encoder(codec_weights: Weights, codec_file: CodecFile, engine: Engine) -> CodecEncoder:
    return CodecEncoder(codec_weights, codec_file, engine)
