"""The work of omnivoice-codec: one job after the other done with an open codec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.audio.formats import STANDARD_STREAM
from ..core.audio.levels import rms
from ..core.audio.reference import ReferenceLimits
from ..core.audio.sinks import check_output, open_sink
from ..core.errors import AudioFileError, OutputError
from ..core.formats import rvq
from ..core.formats.voice_notes import VoiceNotes, write_notes
from ..core.omnivoice.reference import REFERENCE_LIMITS, load_reference, prepare_reference
from ..core.output_files import write_file
from .codec_jobs import Job
from .codec_work import Outcome
from .streams import binary_output

if TYPE_CHECKING:
    from ..core.omnivoice.codec import OmniVoiceCodec

OnPart = Callable[[float], None]

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
    _check_output(job)
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
    data = rvq.pack(codes)
    # Of a recording that was not raised, speech is as loud as the codes.
    notes = VoiceNotes(None if raw or not loudness else loudness, transcript, info.name or None)
    _write(job.output, data, notes)
    seconds = len(samples) / info.sample_rate
    return Outcome(
        len(codes),
        seconds,
        (
            f"[OmniVoice-Codec] Encode: {name}, {len(samples)} samples @ {info.sample_rate} Hz mono ({seconds:.2f} s)",
            f"[OmniVoice-Codec] Wrote {_shown(job.output)}: K={codes.shape[1]} T={len(codes)} ({len(data)} bytes)",
        ),
    )


def decode(job: Job, codec: OmniVoiceCodec, on_part: OnPart) -> Outcome:
    """Write the audio of codes; `on_part` is told which part of it is done, up to 1.

    Raises:
        AudioFileError: the codes cannot be read, or are none of this codec.
        OutputError: the output cannot be written; nothing partial is left.
        EngineError: the device failed or ran out of memory.
    """
    assert job.audio_format is not None
    _check_output(job)
    info, name, written = codec.info, job.source.name, 0
    codes = rvq.parse(_bytes(job), info.codebooks, info.codebook_entries, source=name)
    with open_sink(job.output, job.audio_format, info.sample_rate, stdout=binary_output) as sink:
        for piece in codec.pieces(codes):
            sink.write(piece)
            written += len(piece)
            on_part(written / (len(codes) * info.frame_samples))
    seconds = written / info.sample_rate
    return Outcome(
        len(codes),
        seconds,
        (
            f"[OmniVoice-Codec] Decode: {name}, K={info.codebooks} T={len(codes)}",
            f"[OmniVoice-Codec] Wrote {_shown(job.output)}: {written} samples @ {info.sample_rate} Hz, {seconds:.2f} s",
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


def _check_output(job: Job) -> None:
    if job.output != STANDARD_STREAM:
        check_output(job.output)


def _bytes(job: Job) -> bytes:
    source = job.source.open()
    if not isinstance(source, Path):
        return source.getvalue()
    try:
        return source.read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {source}: {error.strerror or error}") from error


def _write(output: str, data: bytes, notes: VoiceNotes) -> None:
    """Write codes and notes; a pipe has no place for notes."""
    if output != STANDARD_STREAM:
        write_file(Path(output), data)
        if Path(output).is_file():
            write_notes(Path(output), notes)
        return
    stream = binary_output("a .rvq file")
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write 'standard output': {error.strerror or error}") from error


def _shown(output: str) -> str:
    return "<stdout>" if output == STANDARD_STREAM else output
