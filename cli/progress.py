"""What a person at a terminal sees while a command works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.progress import Progress, TaskID, TextColumn

Own = TypeVar("Own", bound="_Display")


class _Display:
    """A context manager that shows something until its end, if there is anything to show."""

    _progress: Progress | None = None

    def __enter__(self: Own) -> Own:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def on_terminal() -> bool:
    """Tell whether a person sees standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def _rewrites_lines() -> bool:
    """Tell whether a line on standard error can be written again and again."""
    return on_terminal() and os.environ.get("TERM", "") not in ("dumb", "unknown")


class SpeechProgress(_Display):
    """Is told how far the speech has come, and shows nothing."""

    def piece(self, number: int, count: int) -> None:
        """Piece `number` of `count` begins."""

    def frame(self, frames: int) -> None:
        """The current piece has this many frames now."""


def speech_progress(frame_rate: float, *, shown: bool) -> SpeechProgress:
    """Return a progress line on standard error if it is `shown` and a terminal, else one that shows nothing.

    `frame_rate` is in frames per second of audio.
    """
    return _TerminalSpeechProgress(frame_rate) if shown and _rewrites_lines() else SpeechProgress()


class _TerminalSpeechProgress(SpeechProgress):
    """One line that is rewritten: `⠋ speaking 2/5  130 frames  10.4 s of audio  3.1x real time`."""

    _progress: Progress

    def __init__(self, frame_rate: float):
        self._frame_rate = frame_rate
        self._started = time.monotonic()
        self._frames_before = 0
        self._frames = 0
        self._progress = _columns()
        self._task: TaskID = self._progress.add_task("speaking", total=None, report="")

    def piece(self, number: int, count: int) -> None:
        """Show which piece is being spoken."""
        self._frames_before += self._frames
        self._frames = 0
        label = "speaking" if count == 1 else f"speaking {number}/{count}"
        self._progress.update(self._task, description=label)

    def frame(self, frames: int) -> None:
        """Show the totals of all pieces so far."""
        self._frames = frames
        total = self._frames_before + frames
        self._progress.update(
            self._task,
            report=describe_speed(total, total / self._frame_rate, time.monotonic() - self._started),
        )


def describe_speed(frames: int, audio_seconds: float, seconds: float) -> str:
    """Return how much audio was made, and how fast against its own duration."""
    speed = audio_seconds / seconds if seconds > 0 else 0.0
    noun = "frame" if frames == 1 else "frames"
    return f"{frames} {noun}  {audio_seconds:.1f} s of audio  {speed:.1f}x real time"


class FileProgress(_Display):
    """Is told how far a row of files has come, and shows nothing."""

    def file(self, name: str) -> None:
        """The next file begins."""

    def part(self, part: float) -> None:
        """This part of the current file is done, up to 1."""


def file_progress(count: int, *, shown: bool) -> FileProgress:
    """Return a bar for `count` files on standard error if it is `shown` and a terminal, else one that shows nothing."""
    return _TerminalFileProgress(count) if shown and _rewrites_lines() else FileProgress()


class _TerminalFileProgress(FileProgress):
    """A bar that is rewritten: `clip.wav ━━━━━━╺━━━━━ 3/12 0:00:07`."""

    _progress: Progress

    def __init__(self, count: int):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TimeRemainingColumn

        self._count = count
        self._begun = 0
        self._unicode = _has_unicode()  # asked now: what rich puts in place of standard error does not tell
        self._progress = Progress(
            _text("{task.description}"),
            BarColumn(),
            _text("{task.fields[report]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        )
        self._task: TaskID = self._progress.add_task("", total=count, report="")

    def file(self, name: str) -> None:
        """Show its name."""
        self._begun += 1
        self._progress.update(self._task, description=_shortened(name, self._unicode))
        self.part(0.0)

    def part(self, part: float) -> None:
        """Move the bar."""
        report = f"{part:.0%}" if self._count == 1 else f"{self._begun}/{self._count}"
        self._progress.update(self._task, completed=self._begun - 1 + part, report=report)


@contextmanager
def byte_progress(title: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Give a function of the bytes done and in all that moves a bar on standard error, if `shown` and a terminal."""
    if not (shown and _rewrites_lines()):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (
        _text("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    name = _shortened(title, _has_unicode())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _shortened(name: str, unicode: bool, longest: int = 40) -> str:
    mark = "…" if unicode else "..."
    return name if len(name) <= longest else mark + name[len(mark) - longest :]


def _has_unicode() -> bool:
    """Tell whether standard error shows more than ASCII or Latin-1 has."""
    return "utf" in (sys.stderr.encoding or "").lower()


def _text(template: str) -> TextColumn:
    """Text that a narrow terminal cuts off, with the mark of rich only where that can be shown."""
    from rich.progress import TextColumn
    from rich.table import Column

    overflow: OverflowMethod = "ellipsis" if _has_unicode() else "crop"
    return TextColumn(template, markup=False, table_column=Column(no_wrap=True, overflow=overflow))


def _columns() -> Progress:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn

    return Progress(
        SpinnerColumn("dots" if _has_unicode() else "line"),
        _text("{task.description}"),
        _text("{task.fields[report]}"),
        console=Console(stderr=True),
        transient=True,
    )
