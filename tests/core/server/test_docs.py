"""The examples of docs/server.md run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.server.options import ServerOptions
from ggtts.core.server.presets import OPENAI_VOICES
from support.humming_family import HummingFamily

from .conftest import Online

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "server.md").read_text("utf-8")


def python_examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_python_client_runs(
    humming_online: Callable[..., tuple[HummingFamily, Online]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    _, server = humming_online(HummingFamily(("adam", "nora")))
    program = python_examples()[0].replace("http://127.0.0.1:8080", server.url)
    exec(compile(program, "server.md", "exec"), {})
    assert (tmp_path / "once.mp3").stat().st_size > 500


def test_the_application_can_be_made() -> None:
    pytest.importorskip("ggtts._native")
    names: dict[str, object] = {}
    exec(compile(python_examples()[1], "server.md", "exec"), names)
    assert callable(names["app"])


def test_it_names_what_there_is() -> None:
    assert not [name for name in OPENAI_VOICES if f"`{name}`" not in TEXT]
    defaults = ServerOptions()
    for option, value in (
        ("--max-batch", defaults.max_batch),
        ("--max-queue", defaults.max_queue),
        ("--max-input-chars", defaults.max_input_chars),
        ("--timeout", f"{defaults.timeout:g}"),
    ):
        assert f"| `{option}` | {value} |" in TEXT
