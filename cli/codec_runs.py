"""A run of a codec command: one job after the other, told and summed up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import AudioFileError, EngineError, GgttsError, OutputError
from .checks import require_writable
from .codec_jobs import Job
from .codec_options import CodecOptions
from .errors import explain, report
from .files import refuse_replacing
from .progress import describe_speed, file_progress, on_terminal

if TYPE_CHECKING:
    from .codec_files import OnPart, Outcome

CONCERNS_ONE_FILE = (AudioFileError, OutputError, EngineError, MemoryError)
"""Failures after which the next file may still succeed."""


def check_jobs(
    jobs: Sequence[Job], options: CodecOptions, program: str, inputs: Mapping[str, Path | None]
) -> None:
    """Refuse before anything is loaded what cannot be written, and warn of options that have no effect.

    Of several outputs, each that cannot be written fails by itself.

    Args:
        jobs: what is to be done.
        options: the command line.
        program: how the command calls itself in messages.
        inputs: files that are read besides those of the jobs, by the options that name them.

    Raises:
        UsageError: a file would be replaced that is read, or standard output is a terminal.
        OutputError: the only output cannot be written.
    """
    flag = "-o" if options.output is not None else "the output"
    for job in jobs:
        refuse_replacing([(flag, job.output), ("the embedding", job.embedding)], inputs)
    if len(jobs) == 1 and options.out_dir is None:
        (job,) = jobs
        require_writable(job.output, "a .rvq file" if job.encodes else "audio")
    if options.format_name is not None and all(job.encodes for job in jobs) and not options.quiet:
        report(program, "--format concerns decoding only", "warning")


def run_jobs(
    jobs: Sequence[Job],
    convert: Callable[[Job, OnPart], Outcome],
    options: CodecOptions,
    program: str,
) -> None:
    """Do all jobs. One that fails is reported, and the next one goes on.

    Args:
        jobs: what is to be done.
        convert: does one; is given whom to tell which part of it is done.
        options: the command line.
        program: how the command calls itself in messages.

    Raises:
        AudioFileError, OutputError, EngineError, MemoryError: the only job failed.
        GgttsError: some of several did.
        BrokenPipeError: nobody reads any more.
    """
    from ..core.output_files import make_folder

    totals, failed = Totals(), 0
    with file_progress(len(jobs), shown=not options.quiet and not options.verbose) as progress:
        for job in jobs:
            progress.file(job.source.name)
            try:
                if options.out_dir is not None:
                    make_folder(Path(job.output).parent)
                outcome = convert(job, progress.part)
            except CONCERNS_ONE_FILE as error:
                if len(jobs) == 1:
                    raise
                report(program, explain(error))
                failed += 1
                continue
            totals.add(job, outcome)
            if options.verbose:
                for line in outcome.lines:
                    click.echo(line, err=True)
    if not options.quiet and not options.verbose:
        totals.report()
    if failed:
        raise GgttsError(f"{failed} of {len(jobs)} files failed")


class Totals:
    """Adds up what was converted."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._outputs: list[str] = []
        self._frames = 0
        self._audio_seconds = 0.0

    def add(self, job: Job, outcome: Outcome) -> None:
        """Count one job."""
        self._outputs.append(job.output)
        self._frames += outcome.frames
        self._audio_seconds += outcome.audio_seconds

    def report(self) -> None:
        """Print the totals for a person at a terminal."""
        if not (self._outputs and on_terminal()):
            return
        count = len(self._outputs)
        name = f"{count} files" if count > 1 else _named(self._outputs[0])
        seconds = time.monotonic() - self._started
        click.echo(f"{name}: {describe_speed(self._frames, self._audio_seconds, seconds)}", err=True)


def _named(output: str) -> str:
    return "standard output" if output == STANDARD_STREAM else output
