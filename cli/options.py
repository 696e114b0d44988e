"""Click options and value types that the commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.audio.formats import FORMATS
from ..core.limits import LARGEST_COUNT, PENALTY, TEMPERATURE, Range

Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
"""What Click is told of every command."""
INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
MOST_THREADS = 512
"""GGML has room for that many (GGML_MAX_N_THREADS)."""


class Int64(click.types.IntParamType):
    """An integer of 64 bits."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer, or fail with what is accepted."""
        number: int = super().convert(value, param, ctx)
        if not -(2**63) <= number < 2**63:
            self.fail(f"{value} does not fit in 64 bits (int64).", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within a range."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail with the accepted range."""
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number: {self._describe_range()} is accepted.", param, ctx)
        return super().convert(value, param, ctx)


class FiniteFloat(click.FloatRange):
    """A float within a range; NaN and infinity, which pass every comparison, are none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the float, or fail with the accepted range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class RangedFloat(FiniteFloat):
    """A float within one of the ranges of the library."""

    def __init__(self, accepted: Range):
        super().__init__(min=0 if accepted.zero else accepted.least, max=accepted.most)
        self._accepted = accepted

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the float, or fail with the accepted range."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if number not in self._accepted:
            self.fail(f"{value} is not in the range {self._accepted}.", param, ctx)
        return number


class SectionedCommand(click.Command):
    """A command whose `--help` lists its options under headings."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **attributes: Any):
        """`sections` has the names of the options (as parameters) by heading; the others come last."""
        super().__init__(*arguments, **attributes)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its options."""
        records = {parameter.name: parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        for title, names in self._sections.items():
            listed = [record for name in names if (record := records.pop(name, None))]
            with formatter.section(title):
                formatter.write_dl(listed)
        with formatter.section("Other"):
            formatter.write_dl([record for record in records.values() if record])


def option_group(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that adds several options, listed by `--help` in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def output_options(default_note: str = "") -> Callable[[Command], Command]:
    """Add `-o` and `--format`."""
    return option_group(
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            help="Audio file to write, or - for standard output." + default_note,
        ),
        click.option(
            "--format",
            "format_name",
            type=click.Choice(list(FORMATS), case_sensitive=False),
            help="Audio format; wav is wav16.  [default: by the ending of FILE, wav16 on a pipe]",
        ),
    )


def device_options() -> Callable[[Command], Command]:
    """Add what concerns the machine: device and threads."""
    return option_group(
        click.option(
            "--device",
            metavar="NAME",
            help="Where to compute: cpu, cuda0, vulkan0 ...  [default: $GGTTS_DEVICE, else the best present]",
        ),
        click.option(
            "--threads",
            metavar="N",
            type=Whole(min=1, max=MOST_THREADS),
            help="CPU threads.  [default: the cores this process may use]",
        ),
    )


def engine_options() -> Callable[[Command], Command]:
    """Add what concerns the machine, the precision of the cache and the way of computing."""
    return option_group(
        device_options(),
        click.option(
            "--kv-type",
            type=click.Choice(["f16", "f32"], case_sensitive=False),
            default="f16",
            show_default=True,
            help="Precision of the key/value cache.",
        ),
        arithmetic_options(),
    )


def arithmetic_options() -> Callable[[Command], Command]:
    """Add the ways of computing."""
    return option_group(
        click.option(
            "--no-fa",
            is_flag=True,
            help="Compute attention with plain matrix products and a softmax, not with a fused operation.",
        ),
        click.option(
            "--clamp-fp16",
            is_flag=True,
            help="Keep activations within the range of float16, for GPUs that compute in it.",
        ),
    )


def report_options(
    verbose: str = "Print what is done, the seed, and where the time went.",
) -> Callable[[Command], Command]:
    """Add `--quiet`, `--verbose` and `--version`; the text is the help of `--verbose`."""
    return option_group(
        click.option("--quiet", is_flag=True, help="Print nothing but errors."),
        click.option("--verbose", is_flag=True, help=verbose),
        version_option(),
    )


def version_option() -> Callable[[Command], Command]:
    """Add `--version`."""
    return click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version.",
    )


def seed_option() -> Callable[[Command], Command]:
    """Add `--seed`."""
    return click.option(
        "--seed",
        metavar="N",
        type=Int64(),
        default=-1,
        show_default=True,
        help="Random seed; negative: a random one.",
    )


def sampling_options() -> Callable[[Command], Command]:
    """Add the seed and both sampling chains; what is not given comes from the model file."""
    return option_group(
        seed_option(),
        click.option("--greedy", is_flag=True, help="Always take the likeliest code, in both stacks."),
        *(_sampling_option(*row) for row in _SAMPLING),
    )


_SAMPLING: Sequence[tuple[str, click.ParamType[Any], str, str]] = (
    ("--temp", RangedFloat(TEMPERATURE), "Temperature; 0 is greedy.", "0.9"),
    (
        "--top-k",
        Whole(min=0, max=LARGEST_COUNT),
        "Sample among the K likeliest codes; 0: all.",
        "50",
    ),
    ("--top-p", FiniteFloat(min=0, min_open=True, max=1), "Sample within this total probability.", "1.0"),
    ("--rep-pen", RangedFloat(PENALTY), "Penalty for codes already used; 1: none.", "1.05"),
    ("--sub-temp", RangedFloat(TEMPERATURE), "The same for the code predictor (codes 1 to 15).", "0.9"),
    ("--sub-top-k", Whole(min=0, max=LARGEST_COUNT), "The same for the code predictor.", "50"),
    ("--sub-top-p", FiniteFloat(min=0, min_open=True, max=1), "The same for the code predictor.", "1.0"),
)


def _sampling_option(
    flag: str, kind: click.ParamType[Any], text: str, default: str
) -> Callable[[Command], Command]:
    return click.option(
        flag, type=kind, metavar="N", help=f"{text}  [default: the model file's, else {default}]"
    )


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("ggtts")
    except PackageNotFoundError:
        number = "unknown"
    click.echo(f"{context.find_root().info_name} {number}")
    context.exit()
