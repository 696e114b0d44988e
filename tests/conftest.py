"""Fixtures of the whole suite: the repository's own test data, and tiny models made from it."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from support.data import CODEC, DATA, Golden, assemble_checkpoint, load_golden
from support.shared_files import make_once
from support.surroundings import make_usual

# Examples are the same in every run, and none is judged by the time that it takes: neither what is drawn nor how busy
# the machine is decides whether the suite passes. Settings of a test of its own are added to these.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--device`, which CI never gives: its machines have the CPU only."""
    parser.addoption(
        "--device",
        default="cpu",
        help="run models on this device, cuda0 for example; stock: the CPU as if it were one",
    )
    _tell_device(_device_of_command_line())


def _device_of_command_line() -> str:
    """Return it before pytest does: folders that are named on the command line are imported before it is configured."""
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    reader.add_argument("--device", default="cpu")
    return str(reader.parse_known_args(sys.argv[1:])[0].device)


def _tell_device(device: str) -> None:
    if device == "stock":
        os.environ["GGTTS_STOCK"] = "1"
    elif device != "cpu":
        os.environ["GGTTS_TEST_DEVICE"] = device
    if device != "cpu":
        os.environ.setdefault("GGTTS_EXACT", "1")
    if os.environ.get("GGTTS_EXACT") == "1":
        # Read when a library starts, which the first test of a worker may do with the usual arithmetic.
        from ggtts.core.engine.engine import KEEPING_ALL_BITS

        os.environ.update(KEEPING_ALL_BITS)


def pytest_configure(config: pytest.Config) -> None:
    """Tell the device to the modules of the suite, which are imported later, and to all workers.

    Run as a background job of a script, the suite inherits Ctrl-C ignored, and the commands that it starts would too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _tell_device(config.getoption("--device"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let commands see the same surroundings everywhere; pytest itself has heeded those of the user by now."""
    make_usual(os.environ)
    if session.config.getoption("--device") in ("cpu", "stock"):
        os.environ["GGTTS_DEVICE"] = "cpu"  # a card that happens to be there is not under test


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On another device, leave out what holds on the CPU only."""
    if config.getoption("--device") == "cpu":
        return
    skip = pytest.mark.skip(reason="holds on the CPU only")
    for item in items:
        if "cpu_only" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _drawn_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test draw the same seeds in every run, where it names none: no run is the first to hear a speech."""
    dice = random.Random(request.node.nodeid)
    monkeypatch.setattr("ggtts.core.sampling.philox.secrets", SimpleNamespace(randbits=dice.getrandbits))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder tests/data."""
    return DATA


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Reference results by case name: `golden("codec_decode_short")["wav"]`."""
    return load_golden


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share, where pytest-xdist is there and has made some."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def tiny_checkpoint(shared_folder: Path) -> Callable[[str], Path]:
    """Tiny Hugging Face checkpoints by repository name; a talker brings its codec in speech_tokenizer/."""

    def checkpoint(name: str) -> Path:
        return make_once(shared_folder / "checkpoints" / name, lambda path: assemble_checkpoint(name, path))

    return checkpoint


@pytest.fixture(scope="session")
def tiny_gguf(shared_folder: Path, tiny_checkpoint: Callable[[str], Path]) -> Callable[..., Path]:
    """Tiny GGUF files by repository name, converted once: `tiny_gguf(name, outtype="f32")`."""
    from ggtts.core.convert import convert_folder

    def gguf(name: str = CODEC, outtype: str = "f32") -> Path:
        folder = tiny_checkpoint(name)
        path = shared_folder / "gguf" / f"{name}-{outtype}.gguf"
        return make_once(path, lambda partial: convert_folder(folder, partial, outtype))

    return gguf
