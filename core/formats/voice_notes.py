"""What a .rvq file cannot say about its recording: a small JSON file beside it, `clip.rvq.json`.

    {"rms": 0.0271, "text": "What is said in it.", "model": "OmniVoice-tokenizer"}

`rms` is the loudness of the recording before it was raised for the codec, so that speech made from the codes is as loud
as speech made from the recording itself. All keys may be missing, and others are ignored.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import AudioFileError
from ..output_files import write_file


@dataclass(frozen=True)
class VoiceNotes:
    """What is known of the recording behind codes.

    Attributes:
        rms: root mean square of the recording, as a part of full scale.
        text: what is said in it.
        model: the codec that made the codes (`general.name` of its file).
    """

    rms: float | None = None
    text: str | None = None
    model: str | None = None


NO_NOTES = VoiceNotes()


def notes_path(codes: Path) -> Path:
    """Return where the notes of a .rvq file lie."""
    return codes.with_name(f"{codes.name}.json")


def read_notes(codes: Path) -> VoiceNotes:
    """Return the notes beside a .rvq file, empty ones where there are none.

    Raises:
        AudioFileError: they cannot be read, or say what cannot be.
    """
    path = notes_path(codes)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return NO_NOTES
    except OSError as error:
        raise AudioFileError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AudioFileError(f"{path} is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise AudioFileError(f"{path} holds no notes of a voice: expected an object with rms, text, model")
    return VoiceNotes(_rms(values, path), _words(values, "text", path), _words(values, "model", path))


def write_notes(codes: Path, notes: VoiceNotes) -> None:
    """Write notes beside a .rvq file.

    Raises:
        OutputError: they cannot be written.
    """
    known = {key: value for key, value in asdict(notes).items() if value is not None}
    text = json.dumps(known, ensure_ascii=False) + "\n"
    # Halves of characters, which names in files may hold, become escapes as JSON has them.
    write_file(notes_path(codes), text.encode("utf-8", "backslashreplace"))


def _rms(values: dict[str, Any], path: Path) -> float | None:
    rms = values.get("rms")
    if rms is None:
        return None
    if isinstance(rms, bool) or not isinstance(rms, (int, float)) or not (math.isfinite(rms) and rms > 0):
        raise AudioFileError(f"{path}: rms must be a positive number, not {rms!r}")
    return float(rms)


def _words(values: dict[str, Any], key: str, path: Path) -> str | None:
    words = values.get(key)
    if words is not None and not isinstance(words, str):
        raise AudioFileError(f"{path}: {key} must be text, not {words!r}")
    return words or None
