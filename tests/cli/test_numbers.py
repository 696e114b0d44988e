"""Every numeric option of every command, set to every number: it works, or it is a usage error that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from ggtts import QwenTTS
from ggtts.cli import omnivoice_codec, omnivoice_tts, qwen_codec, qwen_tts
from ggtts.cli.errors import run
from ggtts.core.omnivoice.model import OmniVoice
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC

TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
NUMBERS = (
    *("-1", "0", "1", "-0.0", "0.5", "1e-7", "1e-46", "1e-300", "5e-324", "1e6", "1e39", "1e300", "1.7e308"),
    *("1e999", "nan", "-inf", "2147483647", "2147483648", "4294967296", "99999999999", "9223372036854775807"),
    *("9223372036854775808", "1" + "0" * 40, "", " ", "1_0", "0x10", "1,5", "٣"),
)
COMMANDS = (qwen_tts, qwen_codec, omnivoice_tts, omnivoice_codec)


def numeric_flags() -> list[tuple[Any, str]]:
    """The options of all commands that take a number."""
    return [
        (module, parameter.opts[0])
        for module in COMMANDS
        for parameter in module.command.params
        if isinstance(parameter, click.Option)
        and isinstance(parameter.type, (click.types.IntParamType, click.types.FloatParamType))
    ]


@dataclass(frozen=True)
class Commands:
    """Runs a command with tiny models that are opened once."""

    files: dict[str, Path]
    qwen: QwenTTS
    omnivoice: OmniVoice
    folder: Path

    def run(self, module: Any, flag: str, value: str) -> tuple[int, str]:
        """Return the exit code and what was printed on standard error."""
        arguments, services = getattr(self, module.NAME.replace("-", "_"))(flag)
        with CliRunner().isolation(input=b"Hello.") as (_, stderr, _):
            code = run(module.command, module.NAME, [*map(str, arguments), flag, value], services)
            return code, stderr.getvalue().decode()

    def qwen_tts(self, flag: str) -> tuple[list[Any], Any]:
        services = qwen_tts.Services(self._handing_out(self.qwen), lambda: (Path("t"), Path("c")))
        limit = [] if flag == "--max-new" else ["--max-new", 2]
        return ["-o", self.folder / "out.wav", "--speaker", "vivian", "--quiet", *limit], services

    def omnivoice_tts(self, flag: str) -> tuple[list[Any], Any]:
        services = omnivoice_tts.Services(self._handing_out(self.omnivoice), self._handing_out(None))
        models = ["--model", self.files[OMNIVOICE], "--codec", self.files[OMNIVOICE_CODEC]]
        limit = [] if flag in ("--duration", "--speed") else ["--duration", 0.4]
        steps = [] if flag == "--steps" else ["--steps", 2]
        return ["-o", self.folder / "out.wav", "--quiet", *models, *limit, *steps], services

    def qwen_codec(self, flag: str) -> tuple[list[Any], Any]:
        return ["--model", self.files[CODEC], "--quiet", "--device", "cpu"], None

    def omnivoice_codec(self, flag: str) -> tuple[list[Any], Any]:
        return ["--model", self.files[OMNIVOICE_CODEC], "--quiet", "--device", "cpu"], None

    @staticmethod
    def _handing_out(model: Any) -> Callable[..., Any]:
        @contextmanager
        def hand_out(*_: Any, **__: Any) -> Iterator[Any]:
            yield model

        return hand_out


@pytest.fixture(scope="module")
def commands(tiny_gguf: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Commands:
    files = {name: tiny_gguf(name) for name in (TALKER, CODEC, OMNIVOICE, OMNIVOICE_CODEC)}
    qwen = QwenTTS.open(files[TALKER], files[CODEC], device="cpu", threads=1)
    omnivoice = OmniVoice.open(files[OMNIVOICE], files[OMNIVOICE_CODEC], device="cpu", threads=1)
    return Commands(files, qwen, omnivoice, tmp_path_factory.mktemp("numbers"))


@pytest.mark.parametrize(
    ("module", "flag"), [pytest.param(*case, id=f"{case[0].NAME}{case[1]}") for case in numeric_flags()]
)
def test_a_number_works_or_is_refused(commands: Commands, module: Any, flag: str) -> None:
    for value in NUMBERS:
        code, errors = commands.run(module, flag, value)
        assert code in (0, 2), (value, errors)
        assert "internal error" not in errors
        if code == 2:
            assert len(errors.splitlines()) == 1, errors
            assert flag in errors or "too long" in errors, (value, errors)


def test_there_are_options_to_test() -> None:
    assert len(numeric_flags()) > 20
    assert np.isfinite(len(NUMBERS))


@pytest.mark.parametrize("module", [qwen_tts, omnivoice_tts], ids=lambda module: module.NAME)
@pytest.mark.parametrize("name", ["", "  "])
def test_an_output_without_a_name(commands: Commands, module: Any, name: str) -> None:
    code, errors = commands.run(module, "-o", name)
    assert (code, errors.count("\n")) == (2, 1)
    assert "the output has no name" in errors
