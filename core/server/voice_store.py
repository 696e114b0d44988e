"""Registered voices by name: in memory, or as they lie in a folder at the time they are asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ..errors import GgttsError, UsageError
from .errors import ApiError
from .voice_folder import FileVersion, RegisteredVoice, VoiceFolder, file_of
from .voice_names import may_be_voice, voice_key
from .voice_parts import VoiceParts

logger = logging.getLogger(__name__)

MOST_VOICES = 1000


@dataclass(frozen=True)
class _Known:
    """What was found in a version of a file: a voice, or why it is none of this model."""

    version: FileVersion | None
    voice: RegisteredVoice | None = None
    problem: GgttsError | None = None


class VoiceStore:
    """Voices by name, in any case. Usable from several threads.

    Voices of a folder are those that lie in it when they are asked for, whoever put them there; of a file that has not
    changed, only the version is looked at.
    """

    def __init__(self, folder: Path | None, clone: Callable[[VoiceParts], Any]) -> None:
        """Read the folder, which is made if it is missing.

        Files that hold no voice, or none of this model, are left alone and told in the log.

        Args:
            folder: where the voices are kept; None is nowhere.
            clone: turns a stored voice into one of the model, or raises UsageError.

        Raises:
            OutputError: the folder cannot be made, read or written.
        """
        self._clone = clone
        # Files are changed under a lock of their own: a slow disk must not keep those waiting who only look.
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._folder = None if folder is None else VoiceFolder(folder, clone)
        if self._folder is not None:
            logger.info("%d voices in %s", len(self.all()), folder)

    @property
    def persistent(self) -> bool:
        """Voices survive a restart."""
        return self._folder is not None

    def all(self) -> list[RegisteredVoice]:
        """Return all voices by name."""
        voices = (known.voice for known in self._all_known())
        return sorted(
            (voice for voice in voices if voice is not None), key=lambda voice: voice_key(voice.name)
        )

    def find(self, name: str) -> RegisteredVoice | None:
        """Return the voice of a name."""
        if not may_be_voice(name):
            return None
        known = self._look(file_of(name))
        return None if known is None else known.voice

    def add(self, name: str, parts: VoiceParts) -> RegisteredVoice:
        """Keep a voice, in place of one of the same name.

        Raises:
            UsageError: it does not suit the model.
            OutputError: it cannot be written.
            ApiError: there are too many, or another model has a voice of that name in the folder.
        """
        voice = RegisteredVoice(name, int(time.time()), parts, self._clone(parts))
        file = file_of(name)
        with self._changing:
            self._require_room(name, file)
            version = None if self._folder is None else self._folder.write(voice)
            self._remember(file, _Known(version, voice))
        return voice

    def remove(self, name: str) -> bool:
        """Forget a voice; tell whether there was one.

        Raises:
            OutputError: its file cannot be removed.
        """
        with self._changing:
            if self.find(name) is None:
                return False
            file = file_of(name)
            if self._folder is not None:
                self._folder.remove(file)
            self._forget({file})
            return True

    def _require_room(self, name: str, file: str) -> None:
        before = self._look(file)
        if before is not None and isinstance(before.problem, UsageError):
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"the folder has a voice {name!r} of another model already: choose another name",
                param="name",
                code="name_taken",
            )
        if (before is None or before.voice is None) and len(self.all()) >= MOST_VOICES:
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"there are {MOST_VOICES} voices already: delete one first",
                code="too_many_voices",
            )

    def _all_known(self) -> list[_Known]:
        if self._folder is not None:
            try:
                versions = self._folder.versions(2 * MOST_VOICES)
            except OSError as error:
                logger.warning("cannot read %s, what was read before is used: %s", self._folder, error)
            else:
                with self._lock:
                    gone = self._known.keys() - versions.keys()
                self._forget(gone)
                found = (self._at(file, version) for file, version in versions.items())
                return [known for known in found if known is not None]
        with self._lock:
            return list(self._known.values())

    def _look(self, file: str) -> _Known | None:
        """Return what a file holds now; None where there is none."""
        if self._folder is not None:
            try:
                version = self._folder.version(file)
            except OSError as error:
                logger.warning("cannot look at %s: %s", self._folder.path(file), error)
            else:
                return self._at(file, version)
        with self._lock:
            return self._known.get(file)

    def _at(self, file: str, version: FileVersion | None) -> _Known | None:
        """Return what a version of a file holds, which is only read where it is new; None is no file."""
        assert self._folder is not None
        with self._lock:
            known = self._known.get(file)
        if known is not None and known.version == version:
            return known
        if version is None:
            self._forget({file})
            return None
        try:
            known = _Known(version, self._folder.read(file))
        except FileNotFoundError:
            return None
        except GgttsError as error:
            logger.warning("%s is left out: %s", self._folder.path(file), error)
            known = _Known(version, problem=error)
        # Should the file have been replaced before it was read, the next look finds another version, and reads again.
        self._remember(file, known)
        return known

    def _remember(self, file: str, known: _Known) -> None:
        with self._lock:
            self._known[file] = known

    def _forget(self, files: set[str]) -> None:
        with self._lock:
            for file in files:
                self._known.pop(file, None)
