"""Fixtures of the whole suite: the repository's own test data, and tiny models made from it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.data import CODEC, DATA, Golden, assemble_checkpoint, load_golden
from support.shared_files import make_once

# Examples are the same every time, and may take as long as a busy machine needs: nothing fails by chance.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


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


def pytest_configure(config: pytest.Config) -> None:
    """Tell the device to the modules of the suite, which are imported later, and to all workers.

    Run as a background job of a script, the suite inherits Ctrl-C ignored, and the commands that it starts would too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _tell_device(config.getoption("--device"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On another device, leave out what holds on the CPU only."""
    if config.getoption("--device") == "cpu":
        return
    skip = pytest.mark.skip(reason="holds on the CPU only")
    for item in items:
        if "cpu_only" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder tests/data."""
    return DATA


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Reference results by case name: `golden("codec_decode_short")["wav"]`."""
    return load_golden


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
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
