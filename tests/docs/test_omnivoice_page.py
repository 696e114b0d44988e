"""docs/omnivoice.md: its examples run, and it names options that exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
import soundfile

from ggtts.cli import omnivoice_codec, omnivoice_tts
from ggtts.core.omnivoice.maskgit import time_steps
from support.data import OMNIVOICE, OMNIVOICE_CODEC

PAGE = Path(__file__).resolve().parents[2] / "docs" / "omnivoice.md"
CUES = "1\n00:00:00,500 --> 00:00:02,000\nThe first line.\n\n2\n00:00:02,500 --> 00:00:04,000\nThe second.\n"


def examples() -> str:
    """The Python blocks of the page as one program; an error tells the line of the page."""
    program: list[str] = []
    inside = False
    for line in PAGE.read_text("utf-8").splitlines():
        fence = line.startswith("```")
        inside = line == "```python" if fence else inside
        program.append(line if inside and not fence else "")
    return "\n".join(program)


def test_the_examples_run(
    tiny_gguf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGTTS_DEVICE", "cpu")
    Path("omnivoice-base.gguf").symlink_to(tiny_gguf(OMNIVOICE))
    Path("omnivoice-tokenizer.gguf").symlink_to(tiny_gguf(OMNIVOICE_CODEC))
    Path("film.srt").write_text(CUES, "utf-8")
    soundfile.write("me.wav", 0.3 * np.sin(np.arange(24_000) * 0.05), 24_000)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(examples(), str(PAGE), "exec"), names)
    assert soundfile.info("film.wav").duration >= 4
    assert all(names["lengths"])  # type: ignore[call-overload]


def test_it_names_options_that_exist() -> None:
    options = {
        name
        for command in (omnivoice_tts.command, omnivoice_codec.command)
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }
    of_the_benchmark = {"--voice", "--text", "--seeds"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE.read_text("utf-8")))
    assert named - options == of_the_benchmark


def test_the_table_of_steps_is_the_schedule() -> None:
    rows = re.findall(r"^\| (\d+) \| \S+ \| (\d+) % \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 5
    for steps, share in rows:
        assert round(100 * (1 - time_steps(int(steps), 0.1)[-2])) == int(share)
