"""The pages of docs/: their examples run, and they name what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import pytest
import soundfile

from ggtts.cli import qwen_codec, qwen_tts
from ggtts.core.audio.formats import FORMATS
from support.data import CODEC

DOCS = Path(__file__).resolve().parents[2] / "docs"
BASE = "Qwen3-TTS-12Hz-0.6B-Base"


def examples(page: str) -> str:
    """The Python blocks of a page as one program; an error tells the line of the page."""
    program: list[str] = []
    inside = False
    for line in (DOCS / page).read_text("utf-8").splitlines():
        fence = line.startswith("```")
        inside = line == "```python" if fence else inside
        program.append(line if inside and not fence else "")
    return "\n".join(program)


def test_the_python_page_runs(
    tiny_gguf: Callable[..., Path],
    tiny_checkpoint: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ggtts._native")
    monkeypatch.chdir(tmp_path)
    Path("talker.gguf").symlink_to(tiny_gguf(BASE))
    Path("codec.gguf").symlink_to(tiny_gguf(CODEC))
    Path("checkpoint").symlink_to(tiny_checkpoint(BASE))
    soundfile.write("voice.wav", 0.3 * np.sin(np.arange(24_000) * 0.05), 24_000)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(examples("python.md"), str(DOCS / "python.md"), "exec"), names)
    assert "unknown speaker 'nobody' (accepted: adam, dario, eva, nora)" in capsys.readouterr().out
    assert soundfile.info("hello.wav").duration > 0.5
    assert len(list(Path("stages").iterdir())) > 5
    speech, again = names["speech"], names["again"]
    assert speech.sample_rate == again.sample_rate == 24_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", [qwen_tts, qwen_codec], ids=lambda module: module.NAME)
def test_the_page_of_a_command_names_options_that_exist(module: ModuleType) -> None:
    text = (DOCS / f"{module.NAME}.md").read_text("utf-8")
    options = {
        name
        for parameter in module.command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - options == {"--help"}


def test_the_page_of_qwen_tts_names_every_format() -> None:
    text = (DOCS / "qwen-tts.md").read_text("utf-8")
    assert not [name for name in FORMATS if f"`{name}`" not in text]
    assert not [suffix for kind in FORMATS.values() for suffix in kind.suffixes if f"`{suffix}`" not in text]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (DOCS / target).exists(), target
