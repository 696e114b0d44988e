"""The tiny OmniVoice codec, opened once per worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.engine import Engine, Weights
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from support.data import OMNIVOICE_CODEC
from support.device import DEVICE


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The device under test, with one thread: tiny models gain nothing from more, and test workers share the cores."""
    return Engine(DEVICE, threads=1)


@pytest.fixture
def codec_weights(engine: Engine, tiny_gguf: Callable[..., Path]) -> Weights:
    """The weights for one test's own networks."""
    return engine.weights(tiny_gguf(OMNIVOICE_CODEC))


@pytest.fixture(scope="session")
def codec_file(engine: Engine, tiny_gguf: Callable[..., Path]) -> OmniVoiceCodecFile:
    weights = engine.weights(tiny_gguf(OMNIVOICE_CODEC))
    return OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names())


@pytest.fixture(scope="session")
def codec(engine: Engine, codec_file: OmniVoiceCodecFile, tiny_gguf: Callable[..., Path]) -> OmniVoiceCodec:
    return OmniVoiceCodec(engine.weights(tiny_gguf(OMNIVOICE_CODEC)), codec_file, engine)
