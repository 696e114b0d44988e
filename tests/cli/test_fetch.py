"""checkpoints.sh, models.sh and quantize.sh: their commands in this process, and the scripts as a shell runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from ggtts.cli import fetch
from ggtts.cli.errors import run
from ggtts.core.convert.fetch import DownloadError
from support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("checkpoints.sh", "models.sh", "quantize.sh")
posix_only = pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="bash scripts")


@dataclass
class World:
    """No network, and a `quantize` that copies."""

    quantized: list[tuple[Path, Path, str]] = field(default_factory=list)
    code: int = 0

    def sizes(self, repository: str) -> dict[str, int]:
        raise DownloadError("huggingface.co cannot be reached (offline): try again when online")

    def download(self, repository: str, name: str, folder: Path) -> None:
        raise AssertionError("nothing is downloaded")

    def quantize(self, source: Path, output: Path, kind: str) -> int:
        self.quantized.append((source, output, kind))
        if not self.code:
            shutil.copyfile(source, output)
        return self.code


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def script(world: World) -> Callable[..., tuple[int, str, str]]:
    """`script("models", "0.6b-base")` returns exit code, output, errors."""

    def invoke(name: str, *arguments: str | Path) -> tuple[int, str, str]:
        command, services = fetch.COMMANDS[name], fetch.Services(lambda: world, world.quantize)
        with CliRunner().isolation() as (stdout, stderr, _):
            code = run(command, str(command.name), list(map(str, arguments)), services)
            return code, stdout.getvalue().decode(), stderr.getvalue().decode()

    return invoke


Script = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", ["checkpoints", "models"])
def test_offline(script: Script, tmp_path: Path, name: str) -> None:
    for variants in ((), ("0.6b-base",), ("1.7b-voicedesign", "omnivoice"), ("all",)):
        code, output, errors = script(name, *variants, "--dir", tmp_path)
        assert (code, output) == (1, "")
        assert errors.splitlines() == [
            f"{name}.sh: error: huggingface.co cannot be reached (offline): try again when online"
        ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["checkpoints", "models"])
def test_the_list_needs_no_network(
    script: Script, tmp_path: Path, tiny_checkpoint: Callable[[str], Path], name: str
) -> None:
    code, output, errors = script(name, "--list", "--dir", tmp_path)
    assert (code, errors) == (0, "")
    assert {line.split()[0] for line in output.splitlines()} >= {"0.6b-base", "1.7b-voicedesign", "omnivoice"}
    assert "here" not in output
    if name == "checkpoints":
        folder = "Qwen3-TTS-12Hz-0.6B-Base"
        shutil.copytree(tiny_checkpoint(folder), tmp_path / folder)
        lines = {
            line.split()[0]: line.split()[1]
            for line in script(name, "--list", "--dir", tmp_path)[1].splitlines()
        }
        assert (lines["0.6b-base"], lines["1.7b-base"]) == ("here", "4.5")
        assert script(name, "0.6b-base", "--dir", tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("checkpoints", ["1.7b"], "unknown variant '1.7b'"),
        ("models", ["tokenizer-9"], "unknown variant"),
        ("models", ["--type", "Q5_X"], "unknown type 'Q5_X'"),
        ("quantize", ["Q9_K"], "unknown type 'Q9_K'"),
        ("checkpoints", ["--no-such"], "No such option"),
    ],
)
def test_usage(script: Script, name: str, arguments: list[str], message: str) -> None:
    code, _, errors = script(name, *arguments)
    assert (code, errors.count("\n")) == (2, 1)
    assert message in errors


def test_quantize_makes_what_is_missing(script: Script, world: World, tmp_path: Path) -> None:
    for name in ("qwen-talker-0.6b-base-F32.gguf", "omnivoice-base-F32.gguf", "other-Q8_0.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    (tmp_path / "omnivoice-base-Q8_0.gguf").write_bytes(b"GGUF")
    assert script("quantize", "--list", "--dir", tmp_path)[1].count("here") == 1
    code, _, errors = script("quantize", "--dir", tmp_path)
    assert code == 0
    assert "[Skip]" in errors
    made = [(output.name, kind) for _, output, kind in world.quantized]
    assert made == [
        ("omnivoice-base-BF16.gguf", "BF16"),
        ("omnivoice-base-Q4_K_M.gguf", "Q4_K_M"),
        ("qwen-talker-0.6b-base-BF16.gguf", "BF16"),
        ("qwen-talker-0.6b-base-Q8_0.gguf", "Q8_0"),
        ("qwen-talker-0.6b-base-Q4_K_M.gguf", "Q4_K_M"),
    ]
    world.quantized.clear()
    assert script("quantize", "q6_k", "--dir", tmp_path)[0] == 0
    assert {kind for _, _, kind in world.quantized} == {"Q6_K"}


def test_quantize_fails_as_its_command_does(script: Script, world: World, tmp_path: Path) -> None:
    code, _, errors = script("quantize", "--dir", tmp_path)
    assert (code, "holds no model of type F32" in errors) == (1, True)
    (tmp_path / "a-F32.gguf").write_bytes(b"GGUF")
    world.code = 1
    assert script("quantize", "--dir", tmp_path)[0] == 1
    assert len(world.quantized) == 1


def test_quantize_looks_at_the_disk(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-F32.gguf").write_bytes(bytes(4000))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    code, _, errors = script("quantize", "Q8_0", "--dir", tmp_path)
    assert (code, "are free" in errors) == (1, True)


@posix_only
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts(name: str, tmp_path: Path) -> None:
    def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(ROOT / name), *arguments],
            env={**os.environ, "PYTHON": sys.executable, "HF_HUB_OFFLINE": "1", **environment},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE,
        )

    helped = shell("-h")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert f"Usage: {name}" in helped.stdout
    assert shell("--no-such").returncode == 2
    plain = shell()
    assert (plain.returncode, plain.stderr.count("\n")) == (1, 1)
    assert plain.stderr.startswith(f"{name}: error: ")
    without = shell(PYTHON="/bin/false")
    assert (without.returncode, without.stderr.count("\n")) == (1, 1)
    assert "has no ggtts" in without.stderr


@posix_only
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_link_finds_the_interpreter_of_its_checkout(name: str, tmp_path: Path) -> None:
    checkout, elsewhere = tmp_path / "the checkout", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in (name, "cli/run_fetch.sh", ".venv/bin/python"):
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
    for file in (name, "cli/run_fetch.sh"):
        shutil.copy(ROOT / file, checkout / file)
    python = checkout / ".venv/bin/python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || printf "%s\\n" "$@"\n')
    python.chmod(0o755)
    (elsewhere / "link").symlink_to(Path("..") / checkout.name / name)
    found = subprocess.run(
        ["./link", "two words", ""],
        env={key: value for key, value in os.environ.items() if key != "PYTHON"},
        capture_output=True,
        text=True,
        cwd=elsewhere,
        timeout=PATIENCE,
    )
    command = Path(name).stem
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == "".join(
        f"{line}\n" for line in ("-m", "ggtts.cli.fetch", command, "two words", "")
    )
