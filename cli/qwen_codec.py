"""`qwen-codec`: recordings to codes and back, with the codec of Qwen3-TTS or the packaged demo codec."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import FORMATS, STANDARD_STREAM
from ..core.errors import AudioFileError, EngineError, GgttsError, OutputError, UsageError
from .codec_jobs import Direction, Job, Naming, plan
from .errors import explain, report, run_and_exit
from .options import device_options, option_group, report_options
from .progress import describe_speed, file_progress
from .streams import binary_output, log_to_stderr

if TYPE_CHECKING:
    from ..core.qwen.codec.model import Codec
    from .codec_work import Outcome

NAME = "qwen-codec"
MODEL_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
INPUT = click.Path(exists=True, readable=False, allow_dash=True)
CONCERNS_ONE_FILE = (AudioFileError, OutputError, EngineError, MemoryError)
"""Failures after which the next file may still succeed."""


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_codec: Callable[..., AbstractContextManager[Codec]]
    """`Codec.open`."""
    demo_codec: Callable[[], Path]
    """The packaged codec."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.qwen.codec.model import Codec
        from ..core.qwen.demo import demo_paths

        return cls(Codec.open, lambda: demo_paths()[1])


@dataclass(frozen=True)
class Options:
    """The command line, one field for each option."""

    model: Path | None
    talker: Path | None
    inputs: tuple[str, ...]
    paths: tuple[str, ...]
    output: str | None
    out_dir: Path | None
    encode: bool
    decode: bool
    format_name: str | None
    device: str | None
    threads: int | None
    quiet: bool
    verbose: bool

    @property
    def all_inputs(self) -> tuple[str, ...]:
        """Those of -i, then the others."""
        return self.inputs + self.paths

    @property
    def direction(self) -> Direction | None:
        """The one that was asked for."""
        if self.encode:
            return Direction.ENCODE
        return Direction.DECODE if self.decode else None


def file_options() -> Callable[[Any], Any]:
    """Add the models, inputs and outputs."""
    return option_group(
        click.option(
            "--model", type=MODEL_FILE, metavar="FILE", help="Codec GGUF.  [default: the packaged demo codec]"
        ),
        click.option(
            "--talker",
            type=MODEL_FILE,
            metavar="FILE",
            help="Base talker GGUF: encoding writes the speaker embedding too, as a .spk file beside the .rvq file.",
        ),
        click.option(
            "-i",
            "--input",
            "inputs",
            type=INPUT,
            multiple=True,
            metavar="PATH",
            help="Audio or .rvq file, folder of such, or - for standard input; may be repeated.",
        ),
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write, or - for standard output.  [default: as the input, ending in .rvq or .wav]",
        ),
        click.option(
            "--out-dir",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Folder for the outputs; it is made if need be.  [default: beside each input]",
        ),
    )


def conversion_options() -> Callable[[Any], Any]:
    """Add the direction and the format of audio."""
    return option_group(
        click.option("--encode", is_flag=True, help="Only encode: say so where the input does not."),
        click.option("--decode", is_flag=True, help="Only decode: say so where the input does not."),
        click.option(
            "--format",
            "format_name",
            type=click.Choice(list(FORMATS)),
            help="Format of decoded audio.  [default: by the ending of -o, else wav16]",
        ),
    )


@click.command(NAME, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("paths", nargs=-1, type=INPUT, metavar="[PATH]...")
@file_options()
@conversion_options()
@device_options()
@report_options(verbose="Print what is read and written.")
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Turn recordings into codes (.rvq), and codes into audio. Every PATH is an input, as with -i.

    \b
    qwen-codec -i clip.wav                        writes clip.rvq
    qwen-codec -i clip.wav --talker base.gguf     writes clip.rvq and clip.spk, a voice for qwen-tts
    qwen-codec -i clip.rvq -o copy.wav            the codes as audio again
    qwen-codec recordings --out-dir codes         all audio files in a folder
    qwen-codec -i - < clip.flac > clip.rvq        through pipes

    Audio may be of any kind that libsndfile reads (WAV, FLAC, MP3, Ogg, Opus, AIFF ...), at any rate. Outputs that
    exist are replaced. Without an input, the codec is loaded and tested.
    """
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        _check(options)
        if options.all_inputs:
            _convert_all(options, context.obj)
        else:
            _test(options, context.obj)


def _check(options: Options) -> None:
    if options.quiet and options.verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    if options.encode and options.decode:
        raise UsageError("--encode and --decode exclude each other")
    if options.output is not None and options.out_dir is not None:
        raise UsageError("-o and --out-dir exclude each other: -o says where one output goes")
    needless = [
        flag
        for flag in ("output", "out_dir", "encode", "decode", "format_name")
        if getattr(options, flag) not in (None, False)
    ]
    if needless and not options.all_inputs:
        raise UsageError("missing input: name a file or a folder, or - for standard input")


def _convert_all(options: Options, services: Services | None) -> None:
    naming = Naming(
        options.output, options.out_dir, options.format_name, options.direction, options.talker is not None
    )
    jobs = plan(options.all_inputs, naming)
    if options.out_dir is None:
        _check_outputs(jobs)
    _warn_of_needless_options(jobs, options)
    embeds = any(job.encodes for job in jobs)
    with _open(options, services or Services.installed(), options.talker if embeds else None) as codec:
        _convert(jobs, codec, options)


def _check_outputs(jobs: Sequence[Job]) -> None:
    """Refuse a single output before anything is loaded; of several jobs each fails by itself."""
    if len(jobs) > 1:
        return
    (job,) = jobs
    if job.output == STANDARD_STREAM:
        binary_output("audio" if job.audio_format else "a .rvq file")
        return
    from ..core.audio.sinks import check_output

    check_output(job.output)


def _warn_of_needless_options(jobs: Sequence[Job], options: Options) -> None:
    if options.quiet:
        return
    if options.talker is not None and not any(job.encodes for job in jobs):
        report(NAME, "--talker concerns encoding only", "warning")
    if options.format_name is not None and all(job.encodes for job in jobs):
        report(NAME, "--format concerns decoding only", "warning")


def _convert(jobs: Sequence[Job], codec: Codec, options: Options) -> None:
    from ..core.output_files import make_folder
    from .codec_work import convert

    totals, failed = Totals(), 0
    with file_progress(len(jobs), shown=not options.quiet and not options.verbose) as progress:
        for job in jobs:
            progress.file(job.source.name)
            try:
                if options.out_dir is not None:
                    make_folder(Path(job.output).parent)
                outcome = convert(job, codec, progress.part)
            except CONCERNS_ONE_FILE as error:
                if len(jobs) == 1:
                    raise
                report(NAME, explain(error))
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


def _open(options: Options, services: Services, talker: Path | None) -> AbstractContextManager[Codec]:
    model = options.model
    if model is None:
        model = services.demo_codec()
        if not options.quiet:
            report(
                NAME,
                "no --model given: the packaged demo codec is used, whose codes fit no other model",
                "note",
            )
    return services.open_codec(model, device=options.device, threads=options.threads, talker=talker)


def _test(options: Options, services: Services | None) -> None:
    from .codec_work import self_test

    with _open(options, services or Services.installed(), options.talker) as codec:
        description = self_test(codec)
    if not options.quiet:
        click.echo(f"[Codec] Load self-test passed: {description}", err=True)


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
        if not self._outputs or sys.stderr is None or not sys.stderr.isatty():
            return
        count = len(self._outputs)
        name = f"{count} files" if count > 1 else _named(self._outputs[0])
        seconds = time.monotonic() - self._started
        click.echo(f"{name}: {describe_speed(self._frames, self._audio_seconds, seconds)}", err=True)


def _named(output: str) -> str:
    return "standard output" if output == STANDARD_STREAM else output


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
