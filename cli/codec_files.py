"""What the codec commands read and write: codes, and audio made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.audio.formats import STANDARD_STREAM
from ..core.audio.sinks import check_output, open_sink
from ..core.errors import AudioFileError
from ..core.formats import rvq
from ..core.output_files import write_errors, write_file
from .codec_jobs import Job
from .streams import binary_output

OnPart = Callable[[float], None]
"""Is told which part of a job is done, up to 1."""


@dataclass(frozen=True)
class Outcome:
    """What a job has made.

    Attributes:
        frames: of codes, written or read.
        audio_seconds: their duration.
        lines: what was done, in the lines that the C++ programs print.
    """

    frames: int
    audio_seconds: float
    lines: tuple[str, ...]


def check_job(job: Job) -> None:
    """Make sure that the outputs can be written.

    Raises:
        OutputError: one cannot.
    """
    for output in (job.output, job.embedding):
        if output is not None:
            check_output(output)


def read_codes(job: Job, codebooks: int, entries: int) -> NDArray[np.int32]:
    """Return the codes [frames, codebooks] of an input.

    Raises:
        AudioFileError: it cannot be read, or holds other codes than below `entries`.
    """
    path = job.source.path
    try:
        data = job.source.data if path is None else path.read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {path}: {error.strerror or error}") from error
    return rvq.parse(data, codebooks, entries, source=job.source.name)


def write_codes(output: str, codes: NDArray[np.int32]) -> int:
    """Write codes [frames, codebooks] to a file or "-"; return how many bytes they take.

    Raises:
        OutputError: they cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    data = rvq.pack(codes)
    if output != STANDARD_STREAM:
        write_file(Path(output), data)
    else:
        stream = binary_output("a .rvq file")
        with write_errors("standard output"):
            stream.write(data)
            stream.flush()
    return len(data)


def write_audio(
    job: Job, pieces: Iterable[NDArray[np.float32]], samples: int, sample_rate: int, on_part: OnPart
) -> int:
    """Write the output of a job, piece by piece as they are made; return how many samples it has.

    Args:
        job: says where to, and in which format.
        pieces: samples.
        samples: how many there will be, about.
        sample_rate: of them.
        on_part: is told how far it is.

    Raises:
        OutputError: it cannot be written; nothing partial is left.
        EngineError: the device failed or ran out of memory.
        BrokenPipeError: nobody reads any more.
    """
    assert job.audio_format is not None
    written = 0
    with open_sink(job.output, job.audio_format, sample_rate, stdout=binary_output) as sink:
        for piece in pieces:
            sink.write(piece)
            written += len(piece)
            on_part(written / samples)
    return written


def shown(output: str) -> str:
    """Return how reports call an output."""
    return "<stdout>" if output == STANDARD_STREAM else output
