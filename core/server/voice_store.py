"""Registered voices: one JSON file for each in a folder, replaced in one step, or in memory only."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import AudioFileError, GgttsError, OutputError, UsageError
from ..output_files import PartFile, write_errors
from .errors import ApiError
from .voice_parts import VoiceParts

logger = logging.getLogger(__name__)

MOST_VOICES = 1000
LONGEST_NAME = 64
"""Bytes in UTF-8. Percent-encoded, such a name still is a file name everywhere."""
SUFFIX = ".voice.json"
_LARGEST_FILE = 4 << 20
_NAME = re.compile(r"[^\W_](?:[\w .'-]*[^\W_])?")


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


class VoiceStore:
    """Voices by name, in any case. Usable from several threads."""

    def __init__(self, folder: Path | None, clone: Callable[[VoiceParts], Any]) -> None:
        """Read the folder, which is made if it is missing.

        Files that hold no voice, or none of this model, are left alone and told in the log.

        Args:
            folder: where the voices are kept; None is nowhere.
            clone: turns a stored voice into one of the model, or raises UsageError.

        Raises:
            OutputError: the folder cannot be made, read or written.
        """
        self._folder = folder
        self._clone = clone
        # Files are changed under a lock of their own: a slow disk must not keep those waiting who only look.
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._voices: dict[str, RegisteredVoice] = {}
        if folder is not None:
            self._read(folder)

    @property
    def persistent(self) -> bool:
        """Voices survive a restart."""
        return self._folder is not None

    def all(self) -> list[RegisteredVoice]:
        """Return all voices by name."""
        with self._lock:
            return [self._voices[key] for key in sorted(self._voices)]

    def find(self, name: str) -> RegisteredVoice | None:
        """Return the voice of a name."""
        with self._lock:
            return self._voices.get(_key(name))

    def add(self, name: str, parts: VoiceParts) -> RegisteredVoice:
        """Keep a voice, in place of one of the same name.

        Raises:
            UsageError: it does not suit the model.
            OutputError: it cannot be written.
            ApiError: there are too many.
        """
        voice = RegisteredVoice(name, int(time.time()), parts, self._clone(parts))
        with self._changing:
            if len(self._voices) >= MOST_VOICES and _key(name) not in self._voices:
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"there are {MOST_VOICES} voices already: delete one first",
                    code="too_many_voices",
                )
            self._write(voice)
            with self._lock:
                self._voices[_key(name)] = voice
        return voice

    def remove(self, name: str) -> bool:
        """Forget a voice; tell whether there was one.

        Raises:
            OutputError: its file cannot be removed.
        """
        with self._changing:
            voice = self._voices.get(_key(name))
            if voice is None:
                return False
            if self._folder is not None:
                path = self._path(voice.name)
                with write_errors(repr(str(path))):
                    path.unlink(missing_ok=True)
            with self._lock:
                del self._voices[_key(name)]
            return True

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(_key(name), safe=' ')}{SUFFIX}"

    def _write(self, voice: RegisteredVoice) -> None:
        if self._folder is None:
            return
        values = {"name": voice.name, "created": voice.created, **voice.parts.to_json()}
        part = PartFile(self._path(voice.name))
        try:
            with write_errors(repr(part.output)):
                with part.open() as file:
                    file.write((json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode())
                    file.flush()
                    os.fsync(file.fileno())
                part.publish()
                _sync_folder(self._folder)
        except BaseException:
            part.remove()
            raise

    def _read(self, folder: Path) -> None:
        _require_folder(folder)
        for path in sorted(folder.glob(f"*{SUFFIX}"))[: 2 * MOST_VOICES]:
            try:
                voice = self._voice_of(path)
            except GgttsError as error:
                logger.warning("%s is left out: %s", path, error)
                continue
            self._voices[_key(voice.name)] = voice
        logger.info("%d voices in %s", len(self._voices), folder)

    def _voice_of(self, path: Path) -> RegisteredVoice:
        try:
            if not path.is_file():  # a named pipe would never end
                raise AudioFileError("it is no file")
            with path.open("rb") as file:
                data = file.read(_LARGEST_FILE + 1)
            values = json.loads(data[:_LARGEST_FILE])
        except (OSError, ValueError, RecursionError) as error:
            raise AudioFileError(f"it cannot be read: {error}") from error
        parts = VoiceParts.from_json(values, path.name)
        name, created = values.get("name"), values.get("created")
        if not isinstance(name, str) or self._path(checked_name(name)) != path:
            raise AudioFileError(f"its name is {name!r}, which belongs in another file")
        return RegisteredVoice(name, created if isinstance(created, int) else 0, parts, self._clone(parts))


def checked_name(name: str) -> str:
    """Return a name for a voice in its usual form.

    Raises:
        UsageError: it is none: not a path, not markup, not endless.
    """
    name = unicodedata.normalize("NFC", name.strip())
    # Letters may become longer without their case, as the name of a file has them.
    length = max(len(form.encode()) for form in (name, _key(name)))
    if not _NAME.fullmatch(name) or length > LONGEST_NAME or ".." in name:
        raise UsageError(
            f"the name {name[:80]!r} cannot be that of a voice: up to {LONGEST_NAME} bytes of letters, digits,"
            " spaces and - _ . ' are accepted, a letter or digit at either end"
        )
    return name


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip()).casefold()


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
