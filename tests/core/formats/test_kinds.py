"""What a file is in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggtts.core.formats.kinds import LONGEST_QUOTE, kind_of_file, kind_of_model, kind_of_path, quoted


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"general.architecture": "qwen3-tts-tokenizer"}, "a Qwen3-TTS codec"),
        ({"general.architecture": "llama"}, "a model of llama.cpp (architecture 'llama')"),
        ({"general.architecture": "whisper"}, "a Whisper speech recogniser"),
        ({"general.architecture": "something"}, "a model of architecture 'something'"),
        ({"general.architecture": "llama", "general.type": "adapter"}, "an adapter"),
        ({"general.architecture": 7}, "does not say what it is"),
        ({"general.architecture": ""}, "does not say what it is"),
        ({}, "does not say what it is"),
    ],
)
def test_models(metadata: dict[str, object], words: str) -> None:
    assert words in kind_of_model(metadata)


def test_files(tmp_path: Path) -> None:
    assert kind_of_file(b"GGUF" + bytes(28)) is None
    assert kind_of_file(b"") is None
    assert "ONNX" in (kind_of_file(b"\x08\x08\x12" + bytes(29)) or "")
    assert kind_of_path(tmp_path / "none") is None
    assert "folder" in (kind_of_path(tmp_path) or "")


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\udc80b", "é" * 500, ["x" * 90] * 3, 10**80, "new\nline"])
def test_quotes_are_short_and_printable(text: object) -> None:
    shown = quoted(text)
    assert len(shown) <= LONGEST_QUOTE
    assert shown.isprintable()
    assert len(shown.splitlines()) == 1
