"""Running commands as a shell would, with a model that hums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, Services, command
from support.fake_model import DEMO_TALKER, FakeModel


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    stdout: bytes
    stderr: str


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def qwen_tts(model: FakeModel) -> Callable[..., Result]:
    """`qwen_tts("-o", path, text="Hello.")` runs the command in this process with the humming model."""

    def invoke(*arguments: str | Path, text: str | bytes = "Hello there.") -> Result:
        services = Services(model.open, lambda: (DEMO_TALKER, Path("demo-codec")))
        data = text.encode() if isinstance(text, str) else text
        with CliRunner().isolation(input=data) as (stdout, stderr, _):
            code = run(command, NAME, [str(argument) for argument in arguments], services)
            return Result(code, stdout.getvalue(), stderr.getvalue().decode())

    return invoke
