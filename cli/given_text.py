"""Text that a command is given: on standard input, whole or as it arrives, and in files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar

import click

from ..core.errors import TextError, UsageError
from ..core.limits import MOST_TEXT_BYTES
from .streams import INPUT_NAME, ArrivingInput, read_input, require_length

Item = TypeVar("Item")


def read_text(*, quiet: bool) -> str:
    """Return the text on standard input, which is read to its end; a terminal is told so unless `quiet`.

    Raises:
        UsageError: there is nothing to say.
        TextError: it is no text.
    """
    from ..core.text.decoding import decode_speech

    return decode_speech(read_input(hint=not quiet), INPUT_NAME)


def read_transcript(path: Path) -> str:
    """Return what `--ref-text` says.

    Raises:
        UsageError: it says nothing.
        TextError: it cannot be read, or is no text.
    """
    from ..core.text.decoding import decode_speech

    return decode_speech(read_bytes(path), f"--ref-text {path}")


def read_bytes(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        TextError: it cannot be read, or does not end.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_TEXT_BYTES + 1)
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror or error}") from error
    return require_length(data, str(path))


def hint(source: ArrivingInput, text: str, *, quiet: bool) -> None:
    """Tell a person at a terminal what to type, unless `quiet`."""
    if source.is_terminal and not quiet:
        click.echo(text, err=True)


def begun(items: Iterator[Item], source: ArrivingInput) -> Iterator[Item]:
    """Look at what is there already, so that an input without words is told before a model is loaded.

    Otherwise the model is loaded while the input is being made.

    Raises:
        UsageError: the input is at its end, and there was nothing to say.
        TextError: it begins with what is not text.
    """
    if not source.has_arrived():
        return items
    first = next(items, None)
    if first is None:
        raise nothing_to_say()
    return chain([first], items)


def nothing_to_say() -> UsageError:
    """Return the error of an input without words."""
    return UsageError(f"{INPUT_NAME} has nothing to say: no line with words in it")
