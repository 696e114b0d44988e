"""Running the OmniVoice commands as a shell would, with the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from ggtts.cli.errors import run

CHEAP = ("--steps", "1", "--seed", "7", "--device", "cpu", "--threads", "1")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    stdout: bytes
    stderr: str


def invoke(
    command: click.Command, name: str, services: Any, arguments: tuple[str | Path, ...], text: str | bytes
) -> Result:
    """Run a command in this process, `text` being its standard input."""
    data = text.encode() if isinstance(text, str) else text
    with CliRunner().isolation(input=data) as (stdout, stderr, _):
        code = run(command, name, [str(argument) for argument in arguments], services)
        return Result(code, stdout.getvalue(), stderr.getvalue().decode())


@dataclass
class Opener:
    """Opens a model when it is first asked for, and counts how often it is."""

    open: Callable[..., Any]
    times: int = 0
    _opened: Any = field(default=None, repr=False)

    def __call__(self, *files: Path, **options: Any) -> Any:
        self.times += 1
        if self._opened is None:
            self._opened = self.open(*files, **options)
        return self._opened
