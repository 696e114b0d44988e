"""Standard input and output as bytes, and warnings as lines on standard error."""

from __future__ import annotations

import logging
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import BinaryIO, cast

import click

from ..core.errors import TextError, UsageError
from ..core.limits import MOST_TEXT_BYTES
from .errors import report

INPUT_NAME = "standard input"


def read_input(*, hint: bool = True) -> bytes:
    """Return all of standard input.

    `hint` tells a person at a terminal, on standard error, that text is awaited.

    Raises:
        UsageError: there is no standard input.
        TextError: it cannot be read, or does not end.
    """
    stream = binary_input()
    if hint and stream.isatty():
        click.echo("Type the text, then end it with Ctrl-D (Ctrl-Z and Enter on Windows).", err=True)
    with input_errors():
        text = stream.read(MOST_TEXT_BYTES + 1)
    return require_length(text, INPUT_NAME)


def require_length(text: bytes, name: str) -> bytes:
    """Return a text, or refuse one that is too long to be one; `name` is where it comes from.

    Raises:
        TextError: it has more than `MOST_TEXT_BYTES`.
    """
    if len(text) > MOST_TEXT_BYTES:
        raise TextError(f"{name} has more than {MOST_TEXT_BYTES >> 20} MiB: that is no text to be spoken")
    return text


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn what the system says of standard input into a `TextError`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TextError(f"cannot read {INPUT_NAME}: {error.strerror or error}") from error


def binary_input(content: str = "the text") -> BufferedReader:
    """Return standard input as a stream of bytes; `content` says in errors what is to come from there.

    Raises:
        UsageError: it is closed.
    """
    if sys.stdin is None:
        raise UsageError(f"there is no standard input: pipe {content} in")
    return cast(BufferedReader, sys.stdin.buffer)


class ArrivingInput:
    """Standard input as it arrives: what was typed is handed on at once."""

    def __init__(self) -> None:
        """Raises `UsageError` when there is no standard input."""
        self._stream = binary_input()

    @property
    def is_terminal(self) -> bool:
        """Whether a person types it."""
        return self._stream.isatty()

    def has_arrived(self) -> bool:
        """Tell whether `read` would return at once, as far as the system can say; its end counts as well."""
        descriptor = _descriptor(self._stream)
        return descriptor is None or bool(_events({descriptor: select.POLLIN}, wait=False))

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes as soon as there are any, b"" at the end.

        Raises:
            BrokenPipeError: whoever read standard output has left meanwhile.
            TextError: it cannot be read.
        """
        descriptor, output = _descriptor(self._stream), _descriptor(sys.stdout)
        if descriptor is not None and output is not None:
            # Asked for nothing, the system still reports that the other end of a pipe is closed.
            events = _events({descriptor: select.POLLIN, output: 0}, wait=True)
            if events.get(output, 0) & (select.POLLERR | select.POLLHUP):
                raise BrokenPipeError
        with input_errors():
            return self._stream.read1(size)


def _descriptor(stream: object) -> int | None:
    """The file descriptor of a stream that the system can watch."""
    if not hasattr(select, "poll"):  # Windows
        return None
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return None


def _events(wanted: dict[int, int], *, wait: bool) -> dict[int, int]:
    """Return what `select.poll` says of these descriptors now, or once there is something to say."""
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    return dict(poll.poll(None if wait else 0))


def binary_output(content: str = "audio") -> BinaryIO:
    """Return standard output as a stream of bytes; `content` says in errors what is to go there.

    Raises:
        UsageError: it is closed, or a terminal, which bytes would only confuse.
    """
    if sys.stdout is None:
        raise UsageError("there is no standard output to write to")
    stream = sys.stdout.buffer
    if stream.isatty():
        raise UsageError(
            f"{content} does not belong on a terminal: pipe it into a player or a file, or name a file"
        )
    return stream


class _StderrHandler(logging.Handler):
    """Prints each record in the form of the command's own messages, and none twice."""

    def __init__(self, program: str):
        super().__init__()
        self._program = program
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._printed:
            self._printed.add(message)
            report(self._program, message, record.levelname.lower())


@contextmanager
def log_to_stderr(program: str, *, quiet: bool = False, verbose: bool = False) -> Iterator[None]:
    """Show what the library logs: warnings, with `verbose` information too, with `quiet` only errors."""
    library = logging.getLogger(__name__.partition(".")[0])
    handler, level = _StderrHandler(program), library.level
    library.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    library.addHandler(handler)
    propagate, library.propagate = library.propagate, False
    try:
        yield
    finally:
        library.removeHandler(handler)
        library.setLevel(level)
        library.propagate = propagate
