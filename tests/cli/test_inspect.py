"""`ggtts inspect` as a shell runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.ggtts import NAME, command
from ggtts.core.qwen.demo import demo_paths
from support.foreign_files import foreign_files, write_gguf


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    output: str
    errors: str


def ggtts(*arguments: str | Path) -> Result:
    """Run `ggtts` in this process."""
    with CliRunner().isolation() as (stdout, stderr, _):
        code = run(command, NAME, [str(argument) for argument in arguments])
        return Result(code, stdout.getvalue().decode(), stderr.getvalue().decode())


def test_tables() -> None:
    talker, codec = demo_paths()
    result = ggtts("inspect", talker, codec)
    assert (result.code, result.errors) == (0, "")
    for words in (
        *("a Qwen3-TTS talker (0.6b custom_voice)", "adam, eva, dario, nora", "a Qwen3-TTS codec"),
        *("code predictor", "7,846,400", "run: echo 'Hello.' | qwen-tts --model"),
    ):
        assert words in result.output


def test_json() -> None:
    talker, codec = demo_paths()
    single = json.loads(ggtts("inspect", "--json", talker).output)
    assert (single["usable"], single["facts"]["Mode"]["languages"]) == (True, ["english"])
    assert [found["what"] for found in json.loads(ggtts("inspect", "--json", talker, codec).output)] == [
        "a Qwen3-TTS talker (0.6b custom_voice)",
        "a Qwen3-TTS codec",
    ]


def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    result = ggtts("inspect", tmp_path / "none.gguf", demo_paths()[0], tmp_path)
    assert result.code == 1
    assert "a Qwen3-TTS talker" in result.output
    assert [line.split(": ", 2)[1] for line in result.errors.splitlines()] == ["error", "error"]
    assert "there is no such file" in result.errors


def test_files_of_others(tmp_path: Path) -> None:
    for path in foreign_files(tmp_path):
        result = ggtts("inspect", path)
        assert result.code in (0, 1)
        assert "internal error" not in result.errors
        assert "\x1b" not in result.output + result.errors
        assert (result.code == 0) == (result.errors == "")


def test_text_of_a_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    name = "\x1b]0;owned\x07[bold red]\r\n\u202e"
    path = write_gguf(tmp_path / "a.gguf", "llama", {"general.name": name}, ("a.weight",))
    result = ggtts("inspect", path)
    assert result.code == 0
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(result.output)
    assert "[bold red]" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect"], "Missing argument"),
        (["inspect", "--compare", "a.gguf"], "--compare takes two files"),
        (["inspect", "--threads", "2", "a.gguf"], "--threads is for --compare"),
        (["inspect", "--no-such", "a.gguf"], "No such option"),
        (["nothing"], "No such command"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    result = ggtts(*arguments)
    assert (result.code, result.errors.count("\n")) == (2, 1)
    assert message in result.errors


def test_help() -> None:
    assert "inspect" in ggtts("--help").output
    assert ggtts() == ggtts("--help")
    assert ggtts("inspect", "-h").code == 0


def test_compare(tiny_gguf: Callable[..., Path]) -> None:
    pytest.importorskip("ggtts.core.convert.quality")
    name = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
    result = ggtts(
        "inspect", "--json", "--compare", tiny_gguf(name), tiny_gguf(name, "q8_0"), "--device", "cpu"
    )
    assert (result.code, result.errors) == (0, "")
    report = json.loads(result.output)
    assert report["architecture"] == "qwen3-tts"
    assert min(stage["cosine"] for stage in report["stages"]) > 0.9
