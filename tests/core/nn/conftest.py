"""An engine for layer tests, and weights on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine, WeightScope
from support.device import DEVICE
from support.random_weights import write_weights


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The device under test, with one thread: layers are small, and test workers share the cores."""
    return Engine(DEVICE, threads=1)


@pytest.fixture
def scope_of(engine: Engine, tmp_path: Path) -> Callable[[Mapping[str, np.ndarray]], WeightScope]:
    """Arrays by name to the weights of a file that holds them."""

    def scope(arrays: Mapping[str, np.ndarray]) -> WeightScope:
        return engine.weights(write_weights(tmp_path / "weights.gguf", arrays)).scope("")

    return scope
