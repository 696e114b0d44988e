"""`omnivoice-codec`: recordings to codes and back, with the codec of OmniVoice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import GgttsError, UsageError
from .codec_jobs import Direction, Job, Naming, plan
from .errors import explain, report, run_and_exit
from .files import same_file
from .options import device_options, option_group, report_options
from .progress import file_progress
from .qwen_codec import CONCERNS_ONE_FILE, INPUT, MODEL_FILE, Totals, conversion_options
from .streams import binary_output, log_to_stderr

if TYPE_CHECKING:
    from ..core.omnivoice.codec import OmniVoiceCodec
    from .codec_work import Outcome

NAME = "omnivoice-codec"


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_codec: Callable[..., OmniVoiceCodec]
    """`core.omnivoice.open_codec.open_codec`."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.omnivoice.open_codec import open_codec

        return cls(open_codec)


@dataclass(frozen=True)
class Options:
    """The command line, one field for each option."""

    model: Path | None
    inputs: tuple[str, ...]
    paths: tuple[str, ...]
    output: str | None
    out_dir: Path | None
    encode: bool
    decode: bool
    format_name: str | None
    raw: bool
    ref_text: Path | None
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
    """Add the model, inputs and outputs."""
    return option_group(
        click.option(
            "--model", type=MODEL_FILE, metavar="FILE", help="Codec GGUF (omnivoice-tokenizer-*.gguf)."
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


def encoding_options() -> Callable[[Any], Any]:
    """Add what concerns encoding only."""
    return option_group(
        click.option(
            "--raw",
            is_flag=True,
            help="Encode the recording as it is: no gain, no silence cut, and its last partial frame too.",
        ),
        click.option(
            "--ref-text",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Text file with what the recording says, to be kept with the codes.",
        ),
    )


@click.command(NAME, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("paths", nargs=-1, type=INPUT, metavar="[PATH]...")
@file_options()
@encoding_options()
@conversion_options()
@device_options()
@report_options(verbose="Print what is read and written.")
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Turn recordings into codes (.rvq), and codes into audio. Every PATH is an input, as with -i.

    \b
    omnivoice-codec --model tokenizer.gguf -i clip.wav                 writes clip.rvq
    omnivoice-codec --model tokenizer.gguf -i clip.rvq -o copy.wav     the codes as audio again

    Recordings are prepared as omnivoice-tts does it with a reference: raised if they are quiet, long silences cut,
    whole frames; how loud they were is written to clip.rvq.json, where omnivoice-tts --ref-rvq finds it. Without an
    input, the codec is loaded and tested.
    """
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        _check(options)
        if options.all_inputs:
            _convert_all(options, context.obj)
        else:
            _test(options, context.obj)


def _check(options: Options) -> None:
    if options.model is None:
        raise UsageError(
            f"{NAME} has no codec of its own: get the model with ./checkpoints.sh omnivoice and ./convert.py,"
            " and name its codec with --model"
        )
    for flag, other, both in (
        ("--quiet", "--verbose", options.quiet and options.verbose),
        ("--encode", "--decode", options.encode and options.decode),
        ("-o", "--out-dir", options.output is not None and options.out_dir is not None),
    ):
        if both:
            raise UsageError(f"{flag} and {other} exclude each other")
    needless = (options.output, options.out_dir, options.format_name, options.direction, options.ref_text)
    if not options.all_inputs and (options.raw or any(value is not None for value in needless)):
        raise UsageError("missing input: name a file or a folder, or - for standard input")


def _convert_all(options: Options, services: Services | None) -> None:
    naming = Naming(options.output, options.out_dir, options.format_name, options.direction)
    jobs = plan(options.all_inputs, naming)
    _refuse_replacing(jobs, options)
    _check_encoding(jobs, options)
    transcript = _transcript(options)
    codec = _open(options, services)
    _convert(jobs, codec, options, transcript)


def _refuse_replacing(jobs: Sequence[Job], options: Options) -> None:
    """No output replaces what is read. Audio beside codes is most likely what they were made from: it is only replaced
    when it is named."""
    for job in jobs:
        for flag, path in (("--model", options.model), ("--ref-text", options.ref_text)):
            if path is not None and path.is_file() and same_file(path, job.output):
                raise UsageError(
                    f"{job.output!r} would replace the file of {flag}: choose another name with -o"
                )
        unnamed = options.output is None and options.out_dir is None
        if unnamed and not job.encodes and Path(job.output).is_file():
            raise UsageError(
                f"{job.source.name} would replace {job.output!r}, perhaps its original: name the output with -o"
            )


def _check_encoding(jobs: Sequence[Job], options: Options) -> None:
    encoding = [job for job in jobs if job.encodes]
    if options.ref_text is not None and len(encoding) != 1:
        raise UsageError(f"--ref-text belongs to one recording, but {len(encoding)} are encoded")
    if options.raw and not encoding:
        raise UsageError("--raw concerns encoding only")
    if len(jobs) == 1 and jobs[0].output == STANDARD_STREAM:
        binary_output("a .rvq file" if encoding else "audio")
    if options.format_name is not None and len(encoding) == len(jobs) and not options.quiet:
        report(NAME, "--format concerns decoding only", "warning")


def _transcript(options: Options) -> str | None:
    if options.ref_text is None:
        return None
    from ..core.text.decoding import decode_speech

    return decode_speech(options.ref_text.read_bytes(), f"--ref-text {options.ref_text}")


def _convert(jobs: Sequence[Job], codec: OmniVoiceCodec, options: Options, transcript: str | None) -> None:
    from ..core.output_files import make_folder
    from .omnivoice_codec_work import decode, encode

    totals, failed = Totals(), 0
    with file_progress(len(jobs), shown=not options.quiet and not options.verbose) as progress:
        for job in jobs:
            progress.file(job.source.name)
            try:
                if options.out_dir is not None:
                    make_folder(Path(job.output).parent)
                if job.encodes:
                    outcome = encode(job, codec, raw=options.raw, transcript=transcript)
                else:
                    outcome = decode(job, codec, progress.part)
            except CONCERNS_ONE_FILE as error:
                if len(jobs) == 1:
                    raise
                report(NAME, explain(error))
                failed += 1
                continue
            totals.add(job, outcome)
            _tell(outcome, options)
    if not options.quiet and not options.verbose:
        totals.report()
    if failed:
        raise GgttsError(f"{failed} of {len(jobs)} files failed")


def _tell(outcome: Outcome, options: Options) -> None:
    if options.verbose:
        for line in outcome.lines:
            click.echo(line, err=True)


def _open(options: Options, services: Services | None) -> OmniVoiceCodec:
    opening = services or Services.installed()
    return opening.open_codec(options.model, device=options.device, threads=options.threads)


def _test(options: Options, services: Services | None) -> None:
    from .omnivoice_codec_work import self_test

    description = self_test(_open(options, services))
    if not options.quiet:
        click.echo(f"[OmniVoice-Codec] Load self-test passed: {description}", err=True)


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
