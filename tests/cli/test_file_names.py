"""Names of files that are no text: Linux allows any bytes in them, and every command takes them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ggtts import demo_paths
from ggtts.cli import convert, fetch, ggtts, omnivoice_codec, omnivoice_tts, quantize, qwen_codec, qwen_tts
from ggtts.cli.errors import run
from ggtts.core.convert.gguf_header import read_header
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are bytes on Linux")

LATIN = os.fsdecode(b"caf\xe9")
Gguf = Callable[..., Path]


def invoke(command: click.Command, *arguments: str | Path, text: str = "Hello.") -> tuple[str, str]:
    """Run a command that succeeds; return what it printed, to both streams."""
    with CliRunner().isolation(input=text) as (stdout, stderr, _):
        code = run(command, str(command.name), [str(argument) for argument in arguments])
        printed = stdout.getvalue().decode(), stderr.getvalue().decode()
    assert code == 0, printed
    return printed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of such a name, in which all names are such."""
    path = tmp_path / LATIN
    path.mkdir()
    return path


def named(path: Path, folder: Path, ending: str) -> Path:
    """A copy of a file under such a name."""
    return Path(shutil.copyfile(path, folder / f"{path.stem}-{LATIN}{ending}"))


def test_sound_and_codes(folder: Path) -> None:
    sound, codes, back = (folder / f"{LATIN}{ending}" for ending in (".wav", ".rvq", ".flac"))
    invoke(qwen_tts.command, "-o", sound, "--seed", "1")
    invoke(qwen_codec.command, "-i", sound, "-o", codes)
    invoke(qwen_codec.command, "-i", codes, "-o", back)
    assert min(path.stat().st_size for path in (sound, codes, back)) > 0
    table, _ = invoke(ggtts.command, "inspect", codes)
    assert "codes of a recording" in table
    shown, _ = invoke(ggtts.command, "inspect", "--json", codes)
    assert json.loads(shown)["path"] == str(codes)


def test_folders_of_dumps_and_models(tiny_checkpoint: Callable[[str], Path], folder: Path) -> None:
    invoke(qwen_tts.command, "--dump", folder / "dump", "-o", folder / "a.wav", "--seed", "1")
    assert list((folder / "dump").iterdir())
    checkpoint = shutil.copytree(tiny_checkpoint(CODEC), folder / "checkpoint")
    assert "Qwen3-TTS codec" in invoke(ggtts.command, "inspect", checkpoint)[0]
    listed, _ = invoke(fetch.models, "--list", "--dir", folder)
    assert "0.6b-base" in listed
    listed, _ = invoke(fetch.checkpoints, "--list", "--dir", folder)
    assert "omnivoice" in listed


def test_converting_and_quantising(tiny_checkpoint: Callable[[str], Path], folder: Path) -> None:
    checkpoint = shutil.copytree(tiny_checkpoint(CODEC), folder / "checkpoint")
    invoke(convert.command, checkpoint, "--out", folder)
    (source,) = folder.glob("*.gguf")
    smaller = folder / f"{LATIN}.gguf"
    invoke(quantize.command, source, smaller, "q8_0")
    assert read_header(smaller).tensors
    assert json.loads(invoke(quantize.command, "--dry-run", "--json", source, "q8_0")[0])["bytes"]
    assert "verdict" in invoke(quantize.command, "--check", source, smaller)[0]
    (folder / f"b{LATIN}-F32.gguf").write_bytes(source.read_bytes())
    assert LATIN not in invoke(fetch.quantize, "--list", "--dir", folder)[0]


def test_models_of_qwen(folder: Path) -> None:
    talker, codec = (named(path, folder, ".gguf") for path in demo_paths())
    models = ("--model", talker, "--codec", codec)
    invoke(qwen_tts.command, *models, "-o", folder / "a.wav", "--seed", "1")
    invoke(qwen_codec.command, "--model", codec, "-i", folder / "a.wav", "-o", folder / "a.rvq")
    table, _ = invoke(ggtts.command, "inspect", talker)
    assert "Qwen3-TTS talker" in table


def test_models_of_omnivoice(tiny_gguf: Gguf, folder: Path) -> None:
    base, codec = (named(tiny_gguf(name), folder, ".gguf") for name in (OMNIVOICE, OMNIVOICE_CODEC))
    models = ("--model", base, "--codec", codec)
    invoke(omnivoice_tts.command, *models, "-o", folder / "a.wav", "--seed", "1", "--steps", "2")
    invoke(omnivoice_codec.command, "--model", codec, "-i", folder / "a.wav", "-o", folder / "a.rvq")
    assert (folder / "a.rvq").stat().st_size


def test_what_is_missing(folder: Path) -> None:
    """The name is printed as it can be."""
    missing = folder / "missing.gguf"
    with CliRunner().isolation() as (_, stderr, _):
        assert run(ggtts.command, "ggtts", ["inspect", str(missing)]) == 1
        assert stderr.getvalue().decode().count("\n") == 1
