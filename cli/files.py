"""Which names stand for the same file, so that nothing is written over what is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError


def identity(path: str | Path) -> object:
    """Equal for all names of one file: links, and letters of either case where the system sees no difference."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def same_file(one: str | Path, other: str | Path) -> bool:
    """Tell whether two names stand for one file or folder."""
    return identity(one) == identity(other)


def refuse_replacing(
    outputs: Iterable[tuple[str, str | Path | None]], inputs: Mapping[str, Path | None]
) -> None:
    """Refuse to write a file that is read, which may be the only copy, or to write one twice.

    Args:
        outputs: what is written, each behind the option that names it.
        inputs: what is read, by the options that name it. Pipes and devices are not replaced by writing to them.

    Raises:
        UsageError: names both options.
    """
    read = {identity(path): flag for flag, path in inputs.items() if path is not None and path.is_file()}
    written: dict[object, str] = {}
    for flag, output in outputs:
        if output is None or str(output) == STANDARD_STREAM:
            continue
        name, file = repr(str(output)), identity(output)
        if file in read:
            raise UsageError(f"{flag} {name} would replace the file of {read[file]}: choose another name")
        if file in written:
            raise UsageError(f"{written[file]} and {flag} name the same file: {name}")
        written[file] = flag
