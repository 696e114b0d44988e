"""Where voices to clone come from: recordings, and files of codes."""

from __future__ import annotations

import logging
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ..errors import UsageError
from ..formats import rvq
from ..formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ..formats.voice_notes import read_notes
from ..speech.observer import Observer
from .codec import OmniVoiceCodec
from .dump import reference_stages
from .reference import load_reference, prepare_reference, prepare_transcript
from .requests import check_voice
from .voice import Voice

logger = logging.getLogger(__name__)

Recording: TypeAlias = "str | PathLike[str] | tuple[NDArray[Any], int]"
"""An audio file, or samples ([n] or [n, channels], full scale 1) and their rate in Hz."""


def recorded_voice(
    codec: OmniVoiceCodec,
    recording: Recording,
    text: str,
    *,
    preprocess: bool = True,
    observer: Observer | None = None,
) -> Voice:
    """Return the voice of a recording; see `OmniVoice.voice`.

    Raises:
        AudioFileError: the recording cannot be read, or is too short or silent.
        UsageError: the text is blank.
    """
    info = codec.info
    source = recording if isinstance(recording, tuple) else Path(recording)
    name = "the recording" if isinstance(source, tuple) else str(source)
    samples = load_reference(source, info.sample_rate, name=name)
    prepared = prepare_reference(
        samples, info.sample_rate, info.frame_samples, cut_silence=preprocess, name=name
    )
    codes = codec.encode(prepared.samples)
    if observer is not None and observer.wants_stages:
        margin = info.semantic_frame_samples // 2
        stages = reference_stages(codec.encode_stages(prepared.samples), margin)
        for stage, values in (stages | {"ref-audio-codes": codes.T}).items():
            observer.stage(stage, values)
    return Voice(codes, prepare_transcript(text, preprocess=preprocess), prepared.rms)


def stored_voice(
    path: str | PathLike[str],
    text: str | None,
    file: OmniVoiceFile,
    codec: OmniVoiceCodecFile,
    *,
    preprocess: bool = True,
) -> Voice:
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
        raise UsageError(f"{path} needs --ref-text: a text file with what the recording says")
    if notes.model is not None and notes.model != codec.name:
        logger.warning("%s was made by the codec of %s, not of %s", path, notes.model, codec.name)
    codes = rvq.read(path, file.codebooks, codec.codebook_entries)
    voice = Voice(codes, prepare_transcript(text, preprocess=preprocess), notes.rms)
    check_voice(voice, file)
    return voice
