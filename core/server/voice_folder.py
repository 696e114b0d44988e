"""A folder of registered voices: one JSON file for each, replaced in one step. Several servers may share it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import AudioFileError, OutputError
from ..output_files import PartFile, write_errors
from .voice_names import checked_name, voice_key
from .voice_parts import VoiceParts

SUFFIX = ".voice.json"
_LARGEST_FILE = 4 << 20


@dataclass(frozen=True, eq=False)
class RegisteredVoice:
    """A voice that was registered.

    Attributes:
        name: as it was given.
        created: seconds since 1970.
        parts: what is stored.
        clone: the same in the form of the model.
    """

    name: str
    created: int
    parts: VoiceParts
    clone: Any


@dataclass(frozen=True)
class FileVersion:
    """Tells one content of a file from the next; files are replaced, so that each has an inode or a time of its own."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileVersion:
        """Return the version that the system tells."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class VoiceFolder:
    """Reads and writes the files of voices. Usable from several threads, and beside other processes."""

    def __init__(self, folder: Path, clone: Callable[[VoiceParts], Any]) -> None:
        """Make the folder if it is missing.

        Args:
            folder: where the voices are kept.
            clone: turns a stored voice into one of the model, or raises UsageError.

        Raises:
            OutputError: the folder cannot be made, read or written.
        """
        self._folder = folder
        self._clone = clone
        _require_folder(folder)

    def __str__(self) -> str:
        return str(self._folder)

    def path(self, file: str) -> Path:
        """Return where a file lies."""
        return self._folder / file

    def versions(self, most: int) -> dict[str, FileVersion]:
        """Return the version of each file that may be a voice, of `most` files at most, in the order of their names.

        Raises:
            OSError: the folder is there and cannot be read.
        """
        found: dict[str, FileVersion] = {}
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX))
        except FileNotFoundError:
            return found
        for name in names[:most]:
            version = self.version(name)
            if version is not None:
                found[name] = version
        return found

    def version(self, file: str) -> FileVersion | None:
        """Return the version of a file; None where there is none.

        Raises:
            OSError: the system cannot say.
        """
        path = self.path(file)
        try:
            return FileVersion.of(path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # of a link that leads nowhere good, the link itself tells
            return FileVersion.of(path.lstat())

    def read(self, file: str) -> RegisteredVoice:
        """Return the voice in a file.

        Raises:
            FileNotFoundError: the file has gone.
            AudioFileError: it holds no voice, or a damaged one.
            UsageError: it does not suit the model.
        """
        values = self._values(self.path(file))
        parts = VoiceParts.from_json(values, file)
        name, created = values.get("name"), values.get("created")
        if not isinstance(name, str) or file_of(checked_name(name)) != file:
            raise AudioFileError(f"its name is {name!r}, which belongs in another file")
        return RegisteredVoice(name, created if isinstance(created, int) else 0, parts, self._clone(parts))

    def write(self, voice: RegisteredVoice) -> FileVersion:
        """Write the file of a voice, in place of an older one, and return its version.

        Raises:
            OutputError: it cannot be written; the older one is still there.
        """
        values = {"name": voice.name, "created": voice.created, **voice.parts.to_json()}
        part = PartFile(self.path(file_of(voice.name)))
        try:
            with write_errors(repr(part.output)):
                self._folder.mkdir(parents=True, exist_ok=True)  # it may have been tidied away meanwhile
                with part.open() as file:
                    file.write((json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode())
                    file.flush()
                    os.fsync(file.fileno())
                    # Asked of the open file: under its name there may soon be that of another server.
                    version = FileVersion.of(os.fstat(file.fileno()))
                part.publish()
                _sync_folder(self._folder)
        except BaseException:
            part.remove()
            raise
        return version

    def remove(self, file: str) -> None:
        """Remove a file, if it is there.

        Raises:
            OutputError: that is not possible.
        """
        with write_errors(repr(str(self.path(file)))):
            self.path(file).unlink(missing_ok=True)

    def _values(self, path: Path) -> Any:
        try:
            path.lstat()  # raises where it has gone
            if not path.is_file():  # a named pipe would never end
                raise AudioFileError("it is no file")
            with path.open("rb") as file:
                data = file.read(_LARGEST_FILE + 1)
            return json.loads(data[:_LARGEST_FILE])
        except FileNotFoundError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise AudioFileError(f"it cannot be read: {error}") from error


def file_of(name: str) -> str:
    """Return what the file of a voice is called, whatever the case of its name."""
    return f"{quote(voice_key(name), safe=' ')}{SUFFIX}"


def _require_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {str(folder)!r} for voices: {error.strerror}") from error
    probe = PartFile(folder / f"probe{SUFFIX}")
    try:
        probe.open().close()
        os.listdir(folder)
    except OSError as error:
        raise OutputError(f"cannot keep voices in {str(folder)!r}: {error.strerror}") from error
    finally:
        probe.remove()


def _sync_folder(folder: Path) -> None:
    """Have the system write the new name down, where it can be asked to."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        with suppress(OSError):  # network file systems
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
