"""Tiny Qwen3-TTS models, opened once per worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.engine import EXACT_VARIABLE
from ggtts.core.qwen.model import QwenTTS
from support.data import CODEC
from support.device import DEVICE
from support.qwen_parts import Parts


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The device under test, with one thread: tiny models gain nothing from more, and test workers share the cores."""
    return Engine(DEVICE, threads=1)


@pytest.fixture(scope="session")
def usual_engine() -> Engine:
    """The device as users have it, where the suite asks for an exact one."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv(EXACT_VARIABLE, raising=False)
        return Engine(DEVICE, threads=1)


@pytest.fixture(scope="session")
def parts(engine: Engine, tiny_gguf: Callable[..., Path]) -> Callable[[str], Parts]:
    """Tiny talkers by repository name, taken apart."""
    return lru_cache(maxsize=None)(lambda name: Parts.open(engine, tiny_gguf(name)))


@pytest.fixture(scope="session")
def open_tiny(tiny_gguf: Callable[..., Path]) -> Callable[..., QwenTTS]:
    """Tiny models by the repository name of their talker and the options of `QwenTTS.open`, opened once each."""

    @cache
    def opened(name: str = "Qwen3-TTS-12Hz-0.6B-CustomVoice", **options: object) -> QwenTTS:
        settings = {"device": DEVICE, "threads": 1, **options}
        return QwenTTS.open(tiny_gguf(name), tiny_gguf(CODEC), **settings)  # type: ignore[arg-type]

    return opened
