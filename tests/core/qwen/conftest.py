"""Tiny Qwen3-TTS models, opened once per worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from ggtts.core.engine import Engine
from support.qwen_parts import Parts


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The CPU with one thread: tiny models gain nothing from more, and test workers share the cores."""
    return Engine("cpu", threads=1)


@pytest.fixture(scope="session")
def parts(engine: Engine, tiny_gguf: Callable[..., Path]) -> Callable[[str], Parts]:
    """Tiny talkers by repository name, taken apart."""
    return lru_cache(maxsize=None)(lambda name: Parts.open(engine, tiny_gguf(name)))
