"""Tiny OmniVoice models, opened once per worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.engine import Engine
from support.data import OMNIVOICE
from support.device import DEVICE
from support.omnivoice_parts import OmniParts


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The device under test, with one thread: tiny models gain nothing from more, and test workers share the cores."""
    return Engine(DEVICE, threads=1)


@pytest.fixture(scope="session")
def omni(engine: Engine, tiny_gguf: Callable[..., Path]) -> OmniParts:
    """The tiny language model, taken apart."""
    return OmniParts.open(tiny_gguf(OMNIVOICE), engine)
