"""`ggtts`: what concerns files rather than speech. `ggtts inspect` says what a file is and how to run it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ..core.errors import UsageError
from .errors import run_and_exit
from .options import SETTINGS, device_options, report_options
from .streams import log_to_stderr
from .tts_server import command as serve

if TYPE_CHECKING:
    from ..core.inspection import Report

NAME = "ggtts"


@click.group(NAME, context_settings=SETTINGS, invoke_without_command=True)
@report_options(verbose="Print what happens meanwhile.")
@click.pass_context
def command(context: click.Context, quiet: bool, verbose: bool) -> None:
    """Look into models.

    To speak: qwen-tts, omnivoice-tts. Codecs: qwen-codec, omnivoice-codec. Smaller files: quantize.
    To serve: tts-server, which is also "ggtts serve".
    """
    context.with_resource(log_to_stderr(NAME, quiet=quiet, verbose=verbose))
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


command.add_command(serve, "serve")


@command.command("inspect", context_settings=SETTINGS, short_help="Say what a file is, and how to run it.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object, or a list of several files.")
@click.option(
    "--compare",
    is_flag=True,
    help="Compare two models, the reference first: run both on the same prompts and print how alike they are.",
)
@click.option(
    "--codec",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --compare: the codec of two talkers, so that they are compared as sound too.",
)
@device_options()
def inspect(
    paths: tuple[Path, ...],
    as_json: bool,
    compare: bool,
    codec: Path | None,
    device: str | None,
    threads: int | None,
) -> None:
    """Say what each FILE is, what is in it, what is odd about it, and the command line to run it with.

    \b
    ggtts inspect models/qwen-talker-0.6b-base-Q8_0.gguf
    ggtts inspect --json models/*.gguf
    ggtts inspect checkpoints/Qwen3-TTS-12Hz-0.6B-Base     what ./convert.py would make of it
    ggtts inspect --compare talker-F32.gguf talker-Q4_K_M.gguf

    FILE may be a GGUF or safetensors file, a folder with a checkpoint, codes (.rvq) or a voice (.spk).
    """
    if compare:
        _compare(paths, codec, device, threads, as_json=as_json)
        return
    for flag, value in (("--codec", codec), ("--device", device), ("--threads", threads)):
        if value is not None:
            raise UsageError(f"{flag} is for --compare: nothing is run without it")
    _print_reports(paths, as_json=as_json)


def _compare(
    paths: tuple[Path, ...], codec: Path | None, device: str | None, threads: int | None, *, as_json: bool
) -> None:
    if len(paths) != 2:
        raise UsageError(f"--compare takes two files, the reference first, not {len(paths)}")
    from ..core.convert.quality import compare_models
    from .quantize_tables import print_report

    print_report(compare_models(*paths, codec, device=device, threads=threads), as_json=as_json)


def _print_reports(paths: tuple[Path, ...], *, as_json: bool) -> None:
    """Print what each path is; one that cannot be read is told after the others, and ends the run as a failure."""
    from ..core.errors import GgttsError
    from ..core.inspection import inspect_path
    from .inspect_tables import print_report

    reports: list[Report] = []
    failures: list[GgttsError] = []
    for path in paths:
        try:
            report = inspect_path(path)
        except GgttsError as error:
            failures.append(error)
            continue
        reports.append(report)
        if not as_json:
            print_report(report)
    if as_json and reports:
        values = [report.as_json() for report in reports]
        click.echo(json.dumps(values if len(paths) > 1 else values[0], indent=2))
    _tell(failures)


def _tell(failures: Sequence[Exception]) -> None:
    from .errors import explain, report

    for error in failures[:-1]:
        report(NAME, explain(error))
    if failures:
        raise failures[-1]


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
