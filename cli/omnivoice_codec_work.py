"""The work of omnivoice-codec: one job after the other done with an open codec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.audio.formats import STANDARD_STREAM
from ..core.audio.levels import rms
from ..core.audio.reference import ReferenceLimits
from ..core.errors import AudioFileError
from ..core.formats.voice_notes import VoiceNotes, write_notes
from ..core.omnivoice.reference import REFERENCE_LIMITS, load_reference, prepare_reference
from .codec_files import OnPart, Outcome, check_job, read_codes, shown, write_audio, write_codes
from .codec_jobs import Job

if TYPE_CHECKING:
    from ..core.omnivoice.codec import OmniVoiceCodec

_ANY_RECORDING: ReferenceLimits = replace(REFERENCE_LIMITS, shortest=0.001, silence=0.0)
"""A click and silence can be coded as well as anything, though they are no voice."""


def encode(job: Job, codec: OmniVoiceCodec, *, raw: bool, transcript: str | None) -> Outcome:
    """Write the codes of a recording, and beside them what they do not say of it.

    Args:
        job: what to read and to write.
        codec: the codec.
        raw: code the recording as it is: no gain, no silence cut, its last partial frame too.
        transcript: what is said in it, for the notes.

    Raises:
        AudioFileError: the recording cannot be read or used.
        OutputError: an output cannot be written.
        EngineError: the device failed or ran out of memory.
    """
    check_job(job)
    info, name = codec.info, job.source.name
    limits = _ANY_RECORDING if raw else REFERENCE_LIMITS
    samples = load_reference(job.source.open(), info.sample_rate, limits=limits, name=name)
    loudness = rms(samples)
    if not raw:
        samples = prepare_reference(samples, info.sample_rate, info.frame_samples, name=name).samples
    try:
        codes = codec.encode(samples)
    except ValueError as error:
        raise AudioFileError(f"{name} cannot be coded: {error}") from error
    # Of a recording that was not raised, speech is as loud as the codes.
    notes = VoiceNotes(None if raw or not loudness else loudness, transcript, info.name or None)
    size = _write(job.output, codes, notes)
    seconds = len(samples) / info.sample_rate
    return Outcome(
        len(codes),
        seconds,
        (
            f"[OmniVoice-Codec] Encode: {name}, {len(samples)} samples @ {info.sample_rate} Hz mono ({seconds:.2f} s)",
            f"[OmniVoice-Codec] Wrote {shown(job.output)}: K={codes.shape[1]} T={len(codes)} ({size} bytes)",
        ),
    )


def decode(job: Job, codec: OmniVoiceCodec, on_part: OnPart) -> Outcome:
    """Write the audio of codes; `on_part` is told which part of it is done, up to 1.

    Raises:
        AudioFileError: the codes cannot be read, or are none of this codec.
        OutputError: the output cannot be written; nothing partial is left.
        EngineError: the device failed or ran out of memory.
    """
    check_job(job)
    info, name = codec.info, job.source.name
    codes = read_codes(job, info.codebooks, info.codebook_entries)
    samples = len(codes) * info.frame_samples
    written = write_audio(job, codec.pieces(codes), samples, info.sample_rate, on_part)
    seconds = written / info.sample_rate
    return Outcome(
        len(codes),
        seconds,
        (
            f"[OmniVoice-Codec] Decode: {name}, K={info.codebooks} T={len(codes)}",
            f"[OmniVoice-Codec] Wrote {shown(job.output)}: {written} samples @ {info.sample_rate} Hz, {seconds:.2f} s",
        ),
    )


def self_test(codec: OmniVoiceCodec) -> str:
    """Encode and decode a second of sound, and describe the codec.

    Raises:
        AudioFileError: what comes out is wrong.
    """
    info = codec.info
    tone: NDArray[np.float32] = 0.25 * np.sin(np.arange(info.sample_rate) * 0.05).astype(np.float32)
    if not np.isfinite(codec.decode(codec.encode(tone))).all():
        raise AudioFileError("the load self-test failed: the codec computes NaN or infinite values")
    return (
        f"{info.codebooks} codebooks of {info.codebook_entries} entries,"
        f" {info.frame_rate:g} frames per second, {info.sample_rate} Hz"
    )


def _write(output: str, codes: NDArray[np.int32], notes: VoiceNotes) -> int:
    """Write codes and notes; a pipe has no place for notes."""
    size = write_codes(output, codes)
    if output != STANDARD_STREAM and Path(output).is_file():
        write_notes(Path(output), notes)
    return size
