"""`qwen-codec`: recordings to codes and back, with the codec of Qwen3-TTS or the packaged demo codec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from .codec_jobs import Naming, plan
from .codec_options import INPUT, CodecOptions, conversion_options, path_options
from .codec_runs import check_jobs, run_jobs
from .errors import report, run_and_exit
from .options import INPUT_FILE, SETTINGS, device_options, option_group, report_options
from .streams import log_to_stderr

if TYPE_CHECKING:
    from ..core.qwen.codec.model import Codec

NAME = "qwen-codec"


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
class Options(CodecOptions):
    """The command line, one field for each option."""

    talker: Path | None

    @property
    def naming(self) -> Naming:
        """What is said about outputs."""
        return replace(super().naming, embeds=self.talker is not None)


def model_options() -> Callable[[Any], Any]:
    """Add the models."""
    return option_group(
        click.option(
            "--model", type=INPUT_FILE, metavar="FILE", help="Codec GGUF.  [default: the packaged demo codec]"
        ),
        click.option(
            "--talker",
            type=INPUT_FILE,
            metavar="FILE",
            help="Base talker GGUF: encoding writes the speaker embedding too, as a .spk file beside the .rvq file.",
        ),
    )


@click.command(NAME, context_settings=SETTINGS)
@click.argument("paths", nargs=-1, type=INPUT, metavar="[PATH]...")
@model_options()
@path_options()
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
        options.check()
        if options.all_inputs:
            _convert_all(options, context.obj)
        else:
            _test(options, context.obj)


def _convert_all(options: Options, services: Services | None) -> None:
    jobs = plan(options.all_inputs, options.naming)
    check_jobs(jobs, options, NAME, {"--model": options.model, "--talker": options.talker})
    embeds = any(job.encodes for job in jobs)
    if options.talker is not None and not embeds and not options.quiet:
        report(NAME, "--talker concerns encoding only", "warning")
    with _open(options, services or Services.installed(), options.talker if embeds else None) as codec:
        from .qwen_codec_work import convert

        run_jobs(jobs, partial(convert, codec), options, NAME)


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
    from .qwen_codec_work import self_test

    with _open(options, services or Services.installed(), options.talker) as codec:
        description = self_test(codec)
    if not options.quiet:
        click.echo(f"[Codec] Load self-test passed: {description}", err=True)


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
