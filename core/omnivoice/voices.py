"""Voices to clone that are stored in files of codes."""

from __future__ import annotations

import logging
from os import PathLike
from pathlib import Path

from ..errors import UsageError
from ..formats import rvq
from ..formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ..formats.voice_notes import read_notes
from ..parameters import TRANSCRIPT
from .reference import prepare_transcript
from .requests import check_voice
from .voice import OmniClonedVoice

logger = logging.getLogger(__name__)


def stored_voice(
    path: str | PathLike[str],
    text: str | None,
    file: OmniVoiceFile,
    codec: OmniVoiceCodecFile,
    *,
    preprocess: bool = True,
) -> OmniClonedVoice:
    """Return the voice in a .rvq file, with what the notes beside it say; see `OmniVoice.stored_voice`.

    Raises:
        AudioFileError: a file cannot be read, or holds codes that this model does not have.
        UsageError: there is no text.
    """
    path = Path(path)
    notes = read_notes(path)
    if text is None:
        text = notes.text
    if text is None:
        raise UsageError(f"{path} needs {TRANSCRIPT}: what the recording says")
    if notes.model is not None and notes.model != codec.name:
        logger.warning("%s was made by the codec of %s, not of %s", path, notes.model, codec.name)
    codes = rvq.read(path, file.codebooks, codec.codebook_entries)
    voice = OmniClonedVoice(codes, prepare_transcript(text, preprocess=preprocess), notes.rms)
    check_voice(voice, file)
    return voice
