"""The type in which a GPU holds the matrices of models that see many positions at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from ggtts.core.engine import Device, Engine, Weights
from ggtts.core.errors import UsageError
from ggtts.core.nn import many_positions
from ggtts.core.nn.many_positions import MATRICES_VARIABLE, WIDE_TYPE, many_positions_type

VALUES = 1000 * 2000


@dataclass(frozen=True)
class FakeEngine:
    """What the choice looks at."""

    name: str = "cuda0"
    free: int = 10 * VALUES
    exact: bool = False
    is_cpu: bool = False

    @property
    def device(self) -> Device:
        return Device(self.name, "", "gpu", self.free, self.free)


@dataclass(frozen=True)
class FakeWeights:
    """Matrices of 1000 x 2000 by name."""

    types: dict[str, str] = field(default_factory=lambda: {"a": "q8_0"})
    path: str = "model.gguf"

    def dtype(self, name: str) -> str:
        return self.types[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return (1000, 2000)


def chosen(engine: FakeEngine, *types: str) -> str | None:
    weights = FakeWeights(dict(zip("abcd", types, strict=False)))
    return many_positions_type(cast(Engine, engine), cast(Weights, weights), list(weights.types))


CAPABILITIES = {"cuda0": (9, 0), "cuda1": (8, 9)}


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card for data centres, one that is not, and nothing said."""
    monkeypatch.delenv(MATRICES_VARIABLE, raising=False)
    monkeypatch.setattr(many_positions, "compute_capability", CAPABILITIES.get)


@pytest.mark.parametrize("types", [["q8_0"], ["q4_K", "q6_K"], ["f16"], ["f32", "q8_0"]])
def test_what_would_be_rounded_is_widened(types: list[str]) -> None:
    assert chosen(FakeEngine(free=100 * VALUES), *types) == WIDE_TYPE


@pytest.mark.parametrize(
    "engine",
    [
        FakeEngine(is_cpu=True),
        FakeEngine(exact=True),
        FakeEngine("vulkan0"),
        FakeEngine("cuda1"),
        FakeEngine("cpu"),
        FakeEngine(free=3 * VALUES),
    ],
)
def test_matrices_stay_as_they_are(engine: FakeEngine) -> None:
    """On the CPU, for comparisons, on cards that gain nothing, and without room."""
    assert chosen(engine, "q8_0") is None


@pytest.mark.parametrize("types", [["f32"], ["bf16", "bf16"]])
def test_floats_stay_as_they_are(types: list[str]) -> None:
    assert chosen(FakeEngine(free=100 * VALUES), *types) is None


def test_it_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MATRICES_VARIABLE, "file")
    assert chosen(FakeEngine(), "q8_0") is None
    monkeypatch.setenv(MATRICES_VARIABLE, "f32")
    assert chosen(FakeEngine("cpu", free=0), "q8_0") == "f32"
    assert chosen(FakeEngine(is_cpu=True), "q8_0") is None
    monkeypatch.setenv(MATRICES_VARIABLE, "f8")
    with pytest.raises(UsageError, match="GGTTS_MATRICES=f8"):
        chosen(FakeEngine(), "q8_0")
