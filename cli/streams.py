"""Standard input and output as bytes, and warnings as lines on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

from ..core.errors import UsageError
from .errors import report

INPUT_NAME = "standard input"


def read_input(*, hint: bool = True) -> bytes:
    """Return all of standard input.

    `hint` tells a person at a terminal, on standard error, that text is awaited.

    Raises:
        UsageError: there is no standard input.
    """
    stream = binary_input()
    if hint and stream.isatty():
        click.echo("Type the text, then end it with Ctrl-D (Ctrl-Z and Enter on Windows).", err=True)
    return stream.read()


def binary_input() -> BinaryIO:
    """Return standard input as a stream of bytes.

    Raises:
        UsageError: it is closed.
    """
    if sys.stdin is None:
        raise UsageError("there is no standard input: pipe the text in (echo 'Hello.' | ...)")
    return sys.stdin.buffer


def binary_output() -> BinaryIO:
    """Return standard output as a stream of bytes.

    Raises:
        UsageError: it is closed, or a terminal, which audio would only confuse.
    """
    if sys.stdout is None:
        raise UsageError("there is no standard output to write to")
    stream = sys.stdout.buffer
    if stream.isatty():
        raise UsageError(
            "audio does not belong on a terminal: pipe it into a player or a file, or name a file"
        )
    return stream


class _StderrHandler(logging.Handler):
    """Prints each record in the form of the command's own messages."""

    def __init__(self, program: str):
        super().__init__()
        self._program = program

    def emit(self, record: logging.LogRecord) -> None:
        report(self._program, record.getMessage(), record.levelname.lower())


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
