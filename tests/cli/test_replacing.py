"""No command writes over a file that it reads, whatever the names are: told in one line, before anything is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ggtts.cli import omnivoice_codec, omnivoice_tts, quantize, qwen_codec, qwen_tts
from ggtts.cli.errors import run
from ggtts.cli.files import refuse_replacing
from ggtts.core.errors import UsageError

FILES = ("model", "codec", "talker", "voice.wav", "voice.txt", "voice.spk", "voice.rvq", "film.srt", "notes")
MODELS = ("--model", "model", "--codec", "codec", "--format", "wav16")
STORED = ("--ref-spk", "voice.spk", "--ref-rvq", "voice.rvq", "--ref-text", "voice.txt")
CLONE = ("--ref-wav", "voice.wav", "--ref-text", "voice.txt")
OMNI = (*MODELS, *CLONE)
DUB = (*OMNI, "--srt", "film.srt")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of every kind that holds its own name."""
    for name in FILES:
        (tmp_path / name).write_text(name)
    (tmp_path / "voice.rvq.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "arguments", "told"),
    [
        (qwen_tts, (*MODELS, "-o", "model"), "-o 'model' would replace the file of --model"),
        (qwen_tts, (*MODELS, "-o", "codec"), "--codec"),
        (qwen_tts, (*MODELS, *CLONE, "-o", "voice.wav"), "--ref-wav"),
        (qwen_tts, (*MODELS, *CLONE, "-o", "voice.txt"), "--ref-text"),
        (qwen_tts, (*MODELS, *STORED, "-o", "voice.spk"), "--ref-spk"),
        (qwen_tts, (*MODELS, *STORED, "-o", "voice.rvq"), "--ref-rvq"),
        (omnivoice_tts, (*OMNI, "-o", "model"), "-o 'model' would replace the file of --model"),
        (omnivoice_tts, (*OMNI, "-o", "codec"), "--codec"),
        (omnivoice_tts, (*OMNI, "-o", "voice.wav"), "--ref-wav"),
        (omnivoice_tts, (*OMNI, "-o", "voice.txt"), "--ref-text"),
        (omnivoice_tts, (*MODELS, "--ref-rvq", "voice.rvq", "-o", "voice.rvq"), "--ref-rvq"),
        (omnivoice_tts, (*MODELS, "--ref-rvq", "voice.rvq", "-o", "voice.rvq.json"), "--ref-rvq (its notes)"),
        (omnivoice_tts, (*DUB, "-o", "film.srt"), "--srt"),
        (omnivoice_tts, (*DUB, "-o", "new.wav", "--srt-report", "film.srt"), "--srt-report 'film.srt' would"),
        (omnivoice_tts, (*DUB, "-o", "new.wav", "--srt-report", "model"), "--srt-report 'model' would"),
        (omnivoice_tts, ("--model", "model", "--llm-test", "notes", "-o", "notes"), "--llm-test"),
        (qwen_codec, ("--model", "model", "voice.wav", "-o", "model"), "-o 'model' would replace"),
        (qwen_codec, ("--talker", "talker", "voice.wav", "-o", "talker"), "--talker"),
        (
            qwen_codec,
            ("--model", "voice.spk", "--talker", "talker", "voice.wav"),
            "the embedding 'voice.spk'",
        ),
        (qwen_codec, ("--model", "voice.rvq", "voice.wav"), "the output 'voice.rvq' would replace"),
        (qwen_codec, ("--model", "voice.rvq", "voice.wav", "--out-dir", "."), "--model"),
        (qwen_codec, ("--encode", "notes", "-o", "notes"), "notes is an input and would be replaced"),
        (omnivoice_codec, ("--model", "model", "voice.wav", "-o", "model"), "-o 'model' would replace"),
        (omnivoice_codec, ("--model", "model", "--encode", "notes", "-o", "notes"), "notes is an input"),
        (omnivoice_codec, ("--model", "voice.rvq", "voice.wav"), "the output 'voice.rvq' would replace"),
        (omnivoice_codec, ("--model", "model", *CLONE[2:], "voice.wav", "-o", "voice.txt"), "--ref-text"),
        (omnivoice_codec, ("--model", "model", "--ref-text", "voice.rvq.json", "voice.wav"), "the notes"),
        (quantize, ("model", "notes", "Q8_0", "--imatrix", "notes"), "OUT 'notes' would replace"),
        (quantize, ("model", "model", "Q8_0"), "OUT 'model' would replace the file of IN"),
    ],
)
def test_what_is_read_is_not_replaced(module: object, arguments: tuple[str, ...], told: str) -> None:
    before = contents()
    code, errors = invoke(module, arguments)
    assert code == 2
    assert errors.count("\n") == 1
    assert told in errors
    assert contents() == before


def invoke(module: object, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it says."""
    command, name = module.command, module.NAME  # type: ignore[attr-defined]
    assert isinstance(command, click.Command)
    with CliRunner().isolation(input=b"Hello.") as (_, stderr, _):
        code = run(command, name, list(arguments))
        return code, stderr.getvalue().decode()


def contents() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path().iterdir() if path.is_file()}


@pytest.mark.parametrize("kind", [os.symlink, os.link])
def test_another_name_of_a_file_is_that_file(kind: object) -> None:
    assert callable(kind)
    kind("voice.wav", "again.wav")
    code, errors = invoke(qwen_tts, (*MODELS, *CLONE, "-o", "again.wav"))
    assert (code, "'again.wav' would replace the file of --ref-wav" in errors) == (2, True)


def test_a_result_that_does_not_exist_yet_may_have_two_names() -> None:
    with pytest.raises(UsageError, match="-o and --report name the same file"):
        refuse_replacing([("-o", "new.wav"), ("--report", Path("../") / Path.cwd().name / "new.wav")], {})


@pytest.mark.parametrize("output", [None, "-", "/dev/null"])
def test_standard_output_and_devices_replace_nothing(output: str | None) -> None:
    refuse_replacing([("-o", output)], {"--ref-wav": Path("/dev/null"), "--model": None})
