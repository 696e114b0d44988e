"""Slips of the hand on a command line: each is one line that says what was meant, and what would do."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from ggtts.cli import convert, ggtts, quantize, qwen_codec, qwen_tts, streams, tts_server
from ggtts.cli.errors import run
from ggtts.core.audio.reference import read_recording
from ggtts.core.errors import AudioFileError


def outcome(
    command: click.Command, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code of a command, and the line that it ends with."""
    code = run(command, str(command.name), arguments)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return code, lines[0]


@pytest.mark.parametrize("value", ["x", "1.5", "", "0x10"])
@pytest.mark.parametrize(
    ("command", "flag", "accepted"),
    [
        (qwen_tts.command, "--threads", "1<=x<=512"),
        (qwen_tts.command, "--top-k", "0<=x<=2147483647"),
        (tts_server.command, "--port", "0<=x<=65535"),
    ],
)
def test_what_is_no_whole_number_is_told_the_range(
    command: click.Command, flag: str, accepted: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, line = outcome(command, [flag, value], capfd)
    assert code == 2
    assert f"{value!r} is no whole number: {accepted} is accepted" in line


def test_the_variable_of_a_bad_value_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GGTTS_MAX_BATCH", "many")
    code, line = outcome(tts_server.command, [], capfd)
    assert code == 2
    assert "--max-batch" in line
    assert "environment variable GGTTS_MAX_BATCH" in line
    _, line = outcome(tts_server.command, ["--max-batch", "few"], capfd)
    assert "environment" not in line


@pytest.mark.parametrize("command", [qwen_tts.command, qwen_codec.command])
def test_an_equals_sign_is_no_part_of_a_name(
    command: click.Command, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, line = outcome(command, ["-o=x.wav"], capfd)
    assert code == 2
    assert "-o x.wav" in line
    assert not list(tmp_path.iterdir())


def test_formats_are_known_in_any_case(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, line = outcome(qwen_tts.command, ["-o", str(tmp_path / "x.mp3"), "--format", "WAV24"], capfd)
    assert code == 2
    assert "format wav24 does not belong in a .mp3 file" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MODEL", "-", "q8_0"], "IN and OUT are files"),
        (["-", "out.gguf", "q8_0"], "IN and OUT are files"),
        (["MODEL", "out.gguf", "q4km"], "did you mean Q4_K_M"),
        (["MODEL", "out.gguf", "q8_0", "--device", "cuda0"], "--device is for --check"),
        ([".", "out.gguf", "q8_0"], "is no file"),
        (["missing.gguf", "out.gguf", "q8_0"], "there is no such file"),
    ],
)
def test_quantize(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    given = [str(model) if value == "MODEL" else value for value in arguments]
    code, line = outcome(quantize.command, given, capfd)
    assert code == 2
    assert words in line
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_inspect_waits_for_no_pipe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, line = outcome(ggtts.command, ["inspect", str(tmp_path / "pipe")], capfd)
    assert (code, "not a regular file" in line) == (1, True)


def test_a_recording_of_another_kind_is_told_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "memo.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(500))
    with pytest.raises(AudioFileError, match=r"WAV, FLAC, MP3.*ffmpeg"):
        read_recording(path)


def test_an_input_that_does_not_end_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_TEXT_BYTES", 1 << 20)
    endless = SimpleNamespace(buffer=io.BytesIO(b"word " * (1 << 20)))
    monkeypatch.setattr("sys.stdin", endless)
    code, line = outcome(qwen_tts.command, ["-o", str(tmp_path / "x.wav")], capfd)
    assert code == 1
    assert "standard input has more than 1 MiB" in line
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tiny_checkpoint: Callable[[str], Path]
) -> None:
    (tmp_path / "file").touch()
    folder = tiny_checkpoint("OmniVoice")
    code, line = outcome(convert.command, [str(folder), "--out", str(tmp_path / "file" / "models")], capfd)
    assert code == 1
    assert "cannot make folder" in line
