"""`omnivoice-codec`: recordings to codes and back, with the codec of OmniVoice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError
from .codec_jobs import Job, plan
from .codec_options import INPUT, CodecOptions, conversion_options, path_options
from .codec_runs import check_jobs, run_jobs
from .errors import run_and_exit
from .files import refuse_replacing
from .given_text import read_transcript
from .options import INPUT_FILE, SETTINGS, device_options, option_group, report_options
from .streams import log_to_stderr

if TYPE_CHECKING:
    from ..core.omnivoice.codec import OmniVoiceCodec
    from .codec_files import OnPart, Outcome

NAME = "omnivoice-codec"


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_codec: Callable[..., OmniVoiceCodec]
    """`OmniVoiceCodec.open`."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.omnivoice.codec import OmniVoiceCodec

        return cls(OmniVoiceCodec.open)


@dataclass(frozen=True)
class Options(CodecOptions):
    """The command line, one field for each option."""

    raw: bool
    ref_text: Path | None

    @property
    def concerns_inputs(self) -> bool:
        """Whether an option makes no sense without an input."""
        return super().concerns_inputs or self.raw or self.ref_text is not None


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
            type=INPUT_FILE,
            metavar="FILE",
            help="Text file with what the recording says, to be kept with the codes.",
        ),
    )


@click.command(NAME, context_settings=SETTINGS)
@click.argument("paths", nargs=-1, type=INPUT, metavar="[PATH]...")
@click.option("--model", type=INPUT_FILE, metavar="FILE", help="Codec GGUF (omnivoice-tokenizer-*.gguf).")
@path_options()
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
            f"{NAME} has no codec of its own: get the model with ./models.sh omnivoice,"
            " and name its codec with --model"
        )
    options.check()


def _convert_all(options: Options, services: Services | None) -> None:
    jobs = plan(options.all_inputs, options.naming)
    _check_jobs(jobs, options)
    transcript = None if options.ref_text is None else read_transcript(options.ref_text)
    codec = _open(options, services)
    from .omnivoice_codec_work import decode, encode

    def convert(job: Job, on_part: OnPart) -> Outcome:
        if job.encodes:
            return encode(job, codec, raw=options.raw, transcript=transcript)
        return decode(job, codec, on_part)

    run_jobs(jobs, convert, options, NAME)


def _check_jobs(jobs: Sequence[Job], options: Options) -> None:
    from ..core.formats.voice_notes import notes_path

    inputs = {"--model": options.model, "--ref-text": options.ref_text}
    check_jobs(jobs, options, NAME, inputs)
    unnamed = options.output is None and options.out_dir is None
    for job in jobs:
        if job.encodes and job.output != STANDARD_STREAM:
            refuse_replacing([("the notes", notes_path(Path(job.output)))], inputs)
        # Audio beside codes is most likely what they were made from: it is only replaced when it is named.
        if unnamed and not job.encodes and Path(job.output).is_file():
            raise UsageError(
                f"{job.source.name} would replace {job.output!r}, perhaps its original: name the output with -o"
            )
    encoding = sum(job.encodes for job in jobs)
    if options.ref_text is not None and encoding != 1:
        raise UsageError(f"--ref-text belongs to one recording, but {encoding} are encoded")
    if options.raw and not encoding:
        raise UsageError("--raw concerns encoding only")


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
