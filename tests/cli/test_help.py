"""What `--help` and `--version` of all commands have in common."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

pytest.importorskip("uvicorn")

from ggtts.cli import (
    convert,
    fetch,
    ggtts,
    omnivoice_codec,
    omnivoice_tts,
    quantize,
    qwen_codec,
    qwen_tts,
    tts_server,
)

COMMANDS = [
    *(module.command for module in (convert, ggtts, omnivoice_codec, omnivoice_tts)),
    *(module.command for module in (quantize, qwen_codec, qwen_tts, tts_server)),
]
SCRIPTS = [fetch.checkpoints, fetch.models, fetch.quantize]
ALL = [*COMMANDS, *SCRIPTS, ggtts.inspect]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_values_by_what_they_are(command: click.Command, flag: str) -> None:
    result = CliRunner().invoke(command, [flag])
    assert result.exit_code == 0
    assert "-h, --help" in result.output
    assert not re.search(r"--[a-z-]+ (DIRECTORY|INTEGER|FLOAT|STRING)\b", result.output)
    assert re.search(r"\n  [A-Z][^\n]*", result.output), "a sentence that says what it does"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_version(command: click.Command) -> None:
    result = CliRunner().invoke(command, ["--version"], prog_name=command.name)
    assert re.fullmatch(rf"{command.name} \d+\.\d+\.\d+\n", result.output)
    assert "Print the version." in CliRunner().invoke(command, ["--help"]).output
