"""Fixtures of the whole suite: the repository's own test data, and tiny models made from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.data import CODEC, DATA, Golden, assemble_checkpoint, load_golden
from support.shared_files import make_once


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
