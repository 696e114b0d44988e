"""What a terminal is shown, by what it can show."""

from __future__ import annotations

import io
import sys

import pytest

from ggtts.cli.progress import SpeechProgress, describe_speed, file_progress, speech_progress


class Terminal(io.TextIOWrapper):
    """Standard error as a terminal of some encoding, which keeps what it shows."""

    def __init__(self, encoding: str) -> None:
        self.shown = io.BytesIO()
        super().__init__(self.shown, encoding=encoding, errors="backslashreplace", write_through=True)

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, encoding: str, kind: str) -> bytes:
    """What a terminal has shown behind some frames of speech."""
    terminal = Terminal(encoding)
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys, "stderr", terminal)
    with speech_progress(12.5, shown=True) as progress:
        progress.piece(1, 2)
        progress.frame(1)
    return terminal.shown.getvalue()


def test_a_dumb_terminal_gets_no_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "utf-8", "dumb") == b""
    assert type(file_progress(3, shown=True)).__name__ == "FileProgress"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(("columns", "words"), [("80", b"speaking 1/2"), ("30", b"speaking")])
def test_a_terminal_without_unicode_gets_no_escapes(
    monkeypatch: pytest.MonkeyPatch, encoding: str, columns: str, words: bytes
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = shown(monkeypatch, encoding, "xterm")
    assert words in text
    assert b"\\u" not in text


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "…"), ("ascii", "...")])
def test_a_long_name_is_cut_as_the_terminal_can_show_it(
    monkeypatch: pytest.MonkeyPatch, encoding: str, mark: str
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(encoding))
    with file_progress(1, shown=True) as progress:
        progress.file("a" * 50 + ".wav")
    text = terminal.shown.getvalue().decode()
    assert f"{mark}aaa" in text
    assert "\\u" not in text


def test_what_is_no_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(speech_progress(12.5, shown=True)) is SpeechProgress


@pytest.mark.parametrize(("frames", "words"), [(0, "0 frames"), (1, "1 frame "), (2, "2 frames")])
def test_one_frame_is_one(frames: int, words: str) -> None:
    assert describe_speed(frames, frames / 12.5, 1.0).startswith(words)
