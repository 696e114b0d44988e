"""What the driver of NVIDIA says, with a made-up driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ggtts.core.engine import compute_capability, nvidia

ATTRIBUTES = {75: 9, 76: 0}


class Driver:
    """One card."""

    def cuInit(self, flags: int) -> int:
        return flags

    def cuDeviceGet(self, handle: Any, ordinal: int) -> int:
        handle._obj.value = 40 + ordinal
        return 0 if ordinal == 0 else 101

    def cuDeviceGetAttribute(self, value: Any, attribute: int, handle: ctypes.c_int) -> int:
        assert handle.value == 40
        value._obj.value = ATTRIBUTES[attribute]
        return 0


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[object], None]]:
    """Put something in place of the driver."""

    def use(load: object) -> None:
        monkeypatch.setattr(nvidia.ctypes, "CDLL", load)
        compute_capability.cache_clear()

    yield use
    compute_capability.cache_clear()


def test_of_a_card(use: Callable[[object], None]) -> None:
    use(lambda name: Driver())
    assert compute_capability("cuda0") == (9, 0)
    assert compute_capability("cuda1") is None, "there is no such card"
    assert compute_capability("cpu") is None
    assert compute_capability("vulkan0") is None


def test_without_a_driver(use: Callable[[object], None]) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    use(missing)
    assert compute_capability("cuda0") is None
    use(lambda name: object())
    assert compute_capability("cuda0") is None
