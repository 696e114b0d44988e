"""`quantize`: smaller GGUF files, and how good they still are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError
from .checks import refuse_both
from .errors import report, run_and_exit
from .files import refuse_replacing
from .options import INPUT_FILE, SETTINGS, device_options, option_group, report_options
from .progress import byte_progress
from .streams import log_to_stderr

if TYPE_CHECKING:
    from ..core.convert.quantize import QuantizeOptions, QuantizePlan

NAME = "quantize"


@dataclass(frozen=True)
class Options:
    """The command line, one field for each option."""

    arguments: tuple[str, ...]
    policy: str
    tensor_types: tuple[str, ...]
    imatrix: Path | None
    allow_requantize: bool
    dry_run: bool
    check: Path | None
    codec: Path | None
    as_json: bool
    device: str | None
    threads: int | None
    quiet: bool
    verbose: bool


def quantising_options() -> Callable[[Any], Any]:
    """Add what concerns the new file."""
    return option_group(
        click.option(
            "--policy",
            type=click.Choice(["mix", "compat"], case_sensitive=False),
            default="mix",
            show_default=True,
            help="mix: what matters most gets more bits. compat: the types that the quantize of qwentts.cpp and "
            "omnivoice.cpp gives.",
        ),
        click.option(
            "--tensor-type",
            "tensor_types",
            multiple=True,
            metavar="PATTERN=TYPE",
            help="Give tensors in whose name the regular expression is found this type; may be repeated.",
        ),
        click.option(
            "--imatrix",
            type=INPUT_FILE,
            metavar="FILE",
            help="Importance matrix of llama.cpp (GGUF or the older format): errors are weighed with it.",
        ),
        click.option("--allow-requantize", is_flag=True, help="Take a file that is quantised already."),
        click.option("--dry-run", is_flag=True, help="Only show what each tensor would become."),
    )


def checking_options() -> Callable[[Any], Any]:
    """Add what concerns the comparison."""
    return option_group(
        click.option(
            "--check",
            type=INPUT_FILE,
            metavar="REF",
            help="Quantise nothing: compare FILE with the file that it was made of.",
        ),
        click.option(
            "--codec",
            type=INPUT_FILE,
            metavar="FILE",
            help="With --check of a talker: compare what both would say as sound as well.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print --dry-run or --check as JSON."),
    )


class _NamingTypes(click.Command):
    """Its help names the types; where they are known is only imported when somebody asks, for it takes a while."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, and the types below it."""
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"TYPE is, in any case: {' '.join(_types())}.")


def _types() -> tuple[str, ...]:
    from ..core.convert.quantize_plan import TYPES

    return TYPES


@click.command(NAME, cls=_NamingTypes, context_settings=SETTINGS)
@click.argument("arguments", nargs=-1, metavar="IN OUT TYPE")
@quantising_options()
@checking_options()
@device_options()
@report_options(verbose="Print the type and place of every tensor.")
def command(**values: Any) -> None:
    """Write a smaller copy of a GGUF file, of a talker, language model or codec.

    \b
    quantize talker-F32.gguf talker-Q4_K_M.gguf q4_k_m
    quantize --dry-run talker-F32.gguf q4_k_m              what each tensor would become
    quantize --check talker-F32.gguf talker-Q4_K_M.gguf    how good it still is

    Of the types, Q8_0 sounds like the original, and Q4_K_M is the smallest that mostly does. An OUT that exists is
    replaced.
    """
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        _require_sense(options)
        if options.check is not None:
            _check(options)
        else:
            _quantize(options)


def _require_sense(options: Options) -> None:
    refuse_both(("--quiet", options.quiet, "--verbose", options.verbose))
    if options.as_json and not (options.dry_run or options.check):
        raise UsageError("--json is for --dry-run and --check")
    if options.check is None and options.codec is not None:
        raise UsageError("--codec is for --check")
    if options.check is None and options.device is not None:
        raise UsageError("--device is for --check: files are quantised on the CPU")
    if options.check is not None and (options.dry_run or options.imatrix or options.tensor_types):
        raise UsageError("--check compares files and quantises nothing: it takes no option about a new file")


def _check(options: Options) -> None:
    if len(options.arguments) != 1:
        raise UsageError("--check REF takes one file to compare: quantize --check REF.gguf FILE.gguf")
    assert options.check is not None
    from ..core.convert.quality import compare_models
    from .quantize_tables import print_report

    found = compare_models(
        options.check,
        _existing(options.arguments[0]),
        options.codec,
        device=options.device,
        threads=options.threads,
    )
    print_report(found, as_json=options.as_json)


def _quantize(options: Options) -> None:
    source, target, type_name = _places(options)
    refuse_replacing([("OUT", target)], {"IN": source, "--imatrix": options.imatrix})
    from ..core.convert.quantize import plan_quantization
    from .quantize_tables import print_plan

    plan = plan_quantization(source, type_name, _quantize_options(options))
    if options.dry_run:
        print_plan(plan, as_json=options.as_json)
        return
    assert target is not None
    if options.verbose:
        print_plan(plan, to_stderr=True)
    _write(plan, target, options)


def _places(options: Options) -> tuple[Path, Path | None, str]:
    """Return IN, OUT and TYPE; OUT may be left out where nothing is written."""
    values = options.arguments
    if options.dry_run and len(values) == 2:
        return _existing(values[0]), None, values[1]
    if len(values) != 3:
        raise UsageError(
            f"quantize takes three arguments: IN.gguf OUT.gguf TYPE, where TYPE is one of {' '.join(_types())}"
        )
    return _existing(values[0]), _named(values[1]), values[2]


def _existing(name: str) -> Path:
    path = _named(name)
    if not path.exists():
        raise UsageError(f"{name}: there is no such file")
    if not path.is_file():
        raise UsageError(f"{name}: is no file that can be read back and forth")
    return path


def _named(name: str) -> Path:
    if name == STANDARD_STREAM:
        raise UsageError("IN and OUT are files, not pipes: name them (./- is a file that is called -)")
    return Path(name)


def _quantize_options(options: Options) -> QuantizeOptions:
    from ..core.convert.importance import read_importance
    from ..core.convert.quantize_plan import Override, QuantizeOptions

    return QuantizeOptions(
        policy=options.policy,
        overrides=[Override.parse(text) for text in options.tensor_types],
        importance=None if options.imatrix is None else read_importance(options.imatrix),
        allow_requantize=options.allow_requantize,
    )


def _write(plan: QuantizePlan, target: Path, options: Options) -> None:
    from ..core.convert.quantize import write_quantized

    started = time.monotonic()
    with byte_progress(target.name, shown=not options.quiet) as progress:
        done = write_quantized(plan, target, threads=options.threads, progress=progress)
    if options.quiet:
        return
    for warning in done.warnings:
        report(NAME, warning, "note")
    before = plan.path.stat().st_size
    click.echo(
        f"{target}: {plan.type_name}, {plan.changed} of {len(plan.tensors)} tensors quantised, "
        f"{before / 1e6:.1f} MB -> {done.size / 1e6:.1f} MB ({plan.bits_per_value:.2f} bits per value, "
        f"{time.monotonic() - started:.0f} s)",
        err=True,
    )


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
