"""The script convert.py as a user runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.data import CODEC, TALKERS
from support.patience import PATIENCE

SCRIPT = Path(__file__).resolve().parents[3] / "convert.py"
Make = Callable[..., Path]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_without_arguments(tiny_checkpoint: Make, tiny_gguf: Make, tmp_path: Path) -> None:
    for name in (TALKERS[1], CODEC):
        shutil.copytree(tiny_checkpoint(name), tmp_path / "checkpoints" / name)
    (tmp_path / "checkpoints" / "other").mkdir()
    first = run(tmp_path)
    assert first.returncode == 0, first.stderr
    models = tmp_path / "models"
    names = ["qwen-talker-0.6b-customvoice-F32.gguf", "qwen-tokenizer-12hz-F32.gguf"]
    assert sorted(path.name for path in models.iterdir()) == names
    assert (models / names[1]).read_bytes() == tiny_gguf(CODEC).read_bytes()
    assert "skipped other" in first.stderr
    (models / names[1]).write_bytes(b"mine")
    again = run(tmp_path)
    assert (again.returncode, again.stderr.count(": exists")) == (0, 2)
    assert (models / names[1]).read_bytes() == b"mine"
    assert run(tmp_path, "--force").returncode == 0
    assert (models / names[1]).read_bytes() != b"mine"


def test_with_folders(tiny_checkpoint: Make, tmp_path: Path) -> None:
    done = run(tmp_path, str(tiny_checkpoint(TALKERS[0])), "--out", "x/y", "--outtype", "auto")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "x/y").iterdir())
    assert names == ["qwen-talker-0.6b-base-BF16.gguf", "qwen-tokenizer-12hz-F32.gguf"]


def test_one_bad_checkpoint_does_not_stop_the_others(tiny_checkpoint: Make, tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    shutil.copytree(tiny_checkpoint(TALKERS[1]), checkpoints / "a")
    shutil.copytree(tiny_checkpoint(CODEC), checkpoints / "b")
    (checkpoints / "a" / "merges.txt").unlink()
    done = run(tmp_path)
    assert done.returncode == 1
    assert "merges.txt: is missing" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["qwen-tokenizer-12hz-F32.gguf"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 1, "checkpoints: is not a folder"),
        (["nowhere"], 1, "nowhere: is not a folder"),
        (["--outtype", "q3"], 2, "q3"),
        (["--frobnicate"], 2, "No such option"),
        (["same/a", "same/b"], 2, "would both be written"),
    ],
)
def test_errors(tiny_checkpoint: Make, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    for name in ("a", "b"):
        shutil.copytree(tiny_checkpoint(CODEC), tmp_path / "same" / name)
    done = run(tmp_path, *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert code == 2 or done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_what_is_printed(tiny_checkpoint: Make, tmp_path: Path) -> None:
    """Without a terminal there is no progress, and no empty line in its place."""
    done = run(tmp_path, str(tiny_checkpoint(CODEC)))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote models/qwen-tokenizer-12hz-F32.gguf: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_output_that_is_no_folder(tiny_checkpoint: Make, tmp_path: Path) -> None:
    done = run(tmp_path, str(tiny_checkpoint(CODEC)), "--out", "/dev/full")
    assert (done.returncode, done.stderr) == (
        1,
        "convert.py: error: cannot make folder '/dev/full': '/dev/full' is a file\n",
    )
