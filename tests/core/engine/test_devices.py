"""Which device is taken when nobody names one: GPUs that this machine does not have are played by stand-ins."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ggtts import _native
from ggtts.core.engine import Engine, devices
from ggtts.core.engine import device as device_module
from ggtts.core.engine.device import choose_device
from ggtts.core.engine.engine import KEEPING_ALL_BITS
from ggtts.core.errors import EngineError
from support.device import DEVICE

GIGABYTE = 1_000_000_000


@dataclass(frozen=True)
class Card:
    """A GPU as `_native.devices` lists it."""

    name: str
    free: int
    description: str = "a card"
    kind: str = "gpu"

    @property
    def memory(self) -> tuple[int, int]:
        if self.free < 0:
            raise _native.DeviceError(f"device '{self.name}': it ran out of memory")
        return 8 * GIGABYTE, self.free


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[Card]:
    """The GPUs of this machine, to be filled by the test; none is named by the environment."""
    present: list[Card] = []
    cpus = [info for info in _native.devices() if info.kind == "cpu"]

    class Native:
        set_log = staticmethod(_native.set_log)
        load_backends = staticmethod(_native.load_backends)

        @staticmethod
        def devices() -> list[object]:
            return [*present, *cpus]

    monkeypatch.setattr(device_module, "_native", Native)
    monkeypatch.delenv("GGTTS_DEVICE", raising=False)
    return present


def test_libraries_are_told_to_keep_all_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which they read when a device is first opened; the CPU without operations of its own plays the GPU."""
    for name in KEEPING_ALL_BITS:
        monkeypatch.setenv(name, "")  # so that it is taken back at the end
        monkeypatch.delenv(name)
    monkeypatch.setenv("GGTTS_STOCK", "1")
    monkeypatch.delenv("GGTTS_EXACT", raising=False)
    assert not Engine("cpu", threads=1).exact
    assert not KEEPING_ALL_BITS.keys() & os.environ.keys()
    monkeypatch.setenv("GGTTS_EXACT", "1")
    assert Engine("cpu", threads=1).exact
    assert KEEPING_ALL_BITS.items() <= os.environ.items()


def test_exact_engines_keep_all_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, whichever thread opens them, and their second ones, too: libraries do not always do as told."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    monkeypatch.setenv("GGTTS_EXACT", "1")

    def opened(_: int) -> list[bool]:
        engine = Engine(DEVICE, threads=1)
        twin = engine.beside(always=True)
        return [other.backend.keeps_all_bits() for other in (engine, twin, engine) if other]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(opened, range(8))) == [[True] * 3] * 8


@pytest.mark.parametrize("dtype", ["f16", "bf16", "q8_0"])
def test_bits_that_are_not_kept_are_noticed(dtype: str) -> None:
    assert not Engine(DEVICE, threads=1).backend.keeps_all_bits(dtype)


def test_the_first_card_with_room_is_taken(cards: list[Card], caplog: pytest.LogCaptureFixture) -> None:
    cards += [Card("cuda0", GIGABYTE // 2), Card("cuda1", 4 * GIGABYTE)]
    assert choose_device(None, 2 * GIGABYTE).name == "cuda1"
    assert [record.getMessage() for record in caplog.records] == [
        "cuda0 has 500 MB free where about 2000 MB are needed: not using it"
    ]
    assert choose_device(None, GIGABYTE // 4).name == "cuda0"


def test_a_card_that_does_not_answer_is_passed_over(
    cards: list[Card], caplog: pytest.LogCaptureFixture
) -> None:
    """So full that the driver does not start: whoever asks for it by name is told, and lists have it."""
    cards += [Card("cuda0", -1), Card("cuda1", GIGABYTE)]
    assert choose_device(None, GIGABYTE // 2).name == "cuda1"
    assert [record.getMessage() for record in caplog.records] == [
        "device 'cuda0': it ran out of memory: not using it"
    ]
    with pytest.raises(EngineError, match="device 'cuda0': it ran out of memory"):
        choose_device("cuda0")
    assert [device.memory_total for device in devices() if device.kind == "gpu"] == [0, 8 * GIGABYTE]


def test_the_cpu_stands_in_for_a_full_card(cards: list[Card], caplog: pytest.LogCaptureFixture) -> None:
    cards += [Card("cuda0", 1)]
    assert choose_device(None, GIGABYTE).kind == "cpu"
    assert len(caplog.records) == 1
    assert choose_device("cuda0", GIGABYTE).name == "cuda0", "who names a card gets it, or its error"


def test_the_room_is_that_of_the_files(cards: list[Card], tmp_path: Path) -> None:
    file = tmp_path / "weights.gguf"
    file.write_bytes(bytes(1000))
    cards += [Card("cuda0", 100_000_000)]
    assert Engine(threads=1, files=(file, tmp_path / "missing.gguf")).device.kind == "cpu"


@pytest.mark.cpu_only
def test_a_card_that_does_not_start_is_left_alone(
    cards: list[Card], caplog: pytest.LogCaptureFixture
) -> None:
    cards += [Card("cuda0", GIGABYTE)]
    with caplog.at_level(logging.WARNING, logger="ggtts.engine"):
        assert Engine(threads=1).device.kind == "cpu"
    assert caplog.records[0].getMessage().endswith("using the CPU")
    with pytest.raises(EngineError, match="no device 'cuda0'"):
        Engine("cuda0", threads=1)
