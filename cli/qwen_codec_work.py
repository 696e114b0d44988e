"""The work of qwen-codec: one job after the other done with an open codec."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.audio.reference import DEFAULT_LIMITS, read_recording
from ..core.errors import GgttsError
from ..core.formats import spk
from ..core.qwen.codec.model import WHOLE_RECORDING, Codec
from .codec_files import OnPart, Outcome, check_job, read_codes, shown, write_audio, write_codes
from .codec_jobs import Job

_LOGGER = logging.getLogger(__name__)


def convert(codec: Codec, job: Job, on_part: OnPart) -> Outcome:
    """Do a job; `on_part` is told which part of it is done, up to 1.

    Raises:
        AudioFileError: the input cannot be read or used.
        OutputError: an output cannot be written; nothing partial is left.
        EngineError: the device failed or ran out of memory.
    """
    check_job(job)
    return _encode(job, codec, on_part) if job.encodes else _decode(job, codec, on_part)


def self_test(codec: Codec) -> str:
    """Encode and decode a second of sound, with a talker embed it too, and describe the codec.

    Raises:
        GgttsError: what comes out is wrong.
    """
    tone = 0.25 * np.sin(np.arange(codec.info.input_sample_rate) * 0.05).astype(np.float32)
    samples = codec.decode(codec.encode(tone))
    if codec.has_speaker_encoder:
        samples = np.concatenate([samples, codec.speaker(tone)])
    if not np.isfinite(samples).all():
        raise GgttsError("the load self-test failed: the codec computes NaN or infinite values")
    return (
        f"{codec.codebooks} codebooks of {codec.entries} entries,"
        f" {codec.frame_rate:g} frames per second, {codec.sample_rate} Hz, on {codec.engine.device.name}"
    )


def _encode(job: Job, codec: Codec, on_part: OnPart) -> Outcome:
    name = job.source.name
    samples, rate = read_recording(job.source.open(), limits=WHOLE_RECORDING, name=name)
    # An unusable reference is known by its embedding, which is computed first: then neither file is written.
    embedding = None if job.embedding is None else codec.speaker(samples, rate, name=name)
    if job.embedding is None:
        _warn_of_no_voice(samples, rate, name)
    codes = codec.encode(samples, rate, name=name, on_progress=on_part)
    size = write_codes(job.output, codes)
    frames, seconds = len(codes), len(samples) / rate
    lines = [
        f"[Codec] Encode: {name}, {len(samples)} samples @ {rate} Hz"
        f" ({frames} frames @ {codec.frame_rate:g} Hz, {seconds:.2f} s)",
        f"[Codec] Wrote {shown(job.output)}: K={codec.codebooks} T={frames},"
        f" {codes.size} codes -> {size} packed bytes",
    ]
    if job.embedding is not None and embedding is not None:
        spk.write(Path(job.embedding), embedding)
        lines.append(
            f"[Codec] Wrote {job.embedding}: {len(embedding)} f32 values ({4 * len(embedding)} bytes)"
        )
    return Outcome(frames, seconds, tuple(lines))


def _decode(job: Job, codec: Codec, on_part: OnPart) -> Outcome:
    name = job.source.name
    codes = read_codes(job, codec.codebooks, codec.entries)
    frames = len(codes)
    samples = frames * codec.info.frame_samples
    written = write_audio(job, codec.pieces(codes), samples, codec.sample_rate, on_part)
    seconds = written / codec.sample_rate
    return Outcome(
        frames,
        seconds,
        (
            f"[Codec] Decode: {name}, K={codec.codebooks} T={frames} ({frames / codec.frame_rate:.2f} s)",
            f"[Codec] Wrote {shown(job.output)}: {written} samples @ {codec.sample_rate} Hz, {seconds:.2f} s",
        ),
    )


def _warn_of_no_voice(samples: NDArray[np.float32], rate: int, name: str) -> None:
    """Codes of silence are codes, but no voice to clone."""
    if len(samples) < DEFAULT_LIMITS.shortest * rate:
        _LOGGER.warning("%s is shorter than %g s: too short for a reference", name, DEFAULT_LIMITS.shortest)
    elif np.abs(samples).max() < DEFAULT_LIMITS.silence:
        _LOGGER.warning("%s is silent: there is no voice in it", name)
