"""Files that appear only when they are complete: a failure leaves what was there before, and nothing else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from .errors import OutputError


class PartFile:
    """A file written beside its target under another name, and renamed over it when complete.

    The target of a link is replaced, not the link. Every method raises `OSError` as the system does.

    Attributes:
        output: the target, as it was named.
        path: where the incomplete file lies.
    """

    def __init__(self, output: str | Path) -> None:
        """`output` is the target; nothing is touched yet."""
        self.output = str(output)
        self._target = Path(os.path.realpath(output))
        self.path = self._target.with_name(f".ggtts-{token_hex(8)}.part")

    def open(self) -> BinaryIO:
        """Create the file, with the permissions of the file that it will replace."""
        file = open(self.path, "w+b")  # noqa: SIM115 (the caller closes it)
        with suppress(OSError):
            os.chmod(self.path, stat.S_IMODE(self._target.stat().st_mode))
        return file

    def publish(self) -> None:
        """Put the complete file in place."""
        os.replace(self.path, self._target)

    def remove(self) -> None:
        """Forget the incomplete file."""
        with suppress(OSError):
            self.path.unlink()


@contextmanager
def part_file(path: Path) -> Iterator[PartFile]:
    """Give a part to write to; it is put in place when the block ends, and removed after a failure of any kind.

    Raises:
        OutputError: the file cannot be written, or `path` is a device, a pipe or a folder.
    """
    with write_errors(repr(str(path))):
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {str(path)!r}: it is no file")
        part = PartFile(path)
        try:
            yield part
            part.publish()
        except BaseException:
            part.remove()
            raise


def write_file(path: Path, data: bytes) -> None:
    """Write a small file beside its target and rename it over that; devices and named pipes are written directly.

    Raises:
        OutputError: the file cannot be written.
        BrokenPipeError: the reader of a named pipe has left.
    """
    with write_errors(repr(str(path))):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
    with part_file(path) as part, part.open() as file:
        file.write(data)


def make_folder(folder: Path) -> None:
    """Make a folder and those that it lies in, where they are missing.

    Raises:
        OutputError: that is not possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            # The system names the folder, but any part of its path may be in the way.
            parts = (*reversed(folder.parents), folder)
            reason = f"{str(next((path for path in parts if not path.is_dir()), folder))!r} is a file"
        raise OutputError(f"cannot make folder {str(folder)!r}: {reason}") from error


@contextmanager
def write_errors(name: str) -> Iterator[None]:
    """Turn what the system says into an `OutputError` about `name`; a reader that left stays what it is.

    Raises:
        OutputError: in place of any other `OSError` than a broken pipe.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {name}: {error.strerror or error}") from error
