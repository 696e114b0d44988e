"""Files that appear only when they are complete: a failure leaves what was there before, and nothing else."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from .errors import OutputError


def write_file(path: Path, data: bytes) -> None:
    """Write a small file beside its target and rename it over that; devices and named pipes are written directly.

    Raises:
        OutputError: the file cannot be written.
        BrokenPipeError: the reader of a named pipe has left.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _replace(target: Path, data: bytes) -> None:
    part = target.with_name(f".ggtts-{token_hex(8)}.part")
    try:
        part.write_bytes(data)
        with suppress(OSError):
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
