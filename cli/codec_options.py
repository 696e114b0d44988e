"""What the codec commands have in common on their command lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..core.audio.formats import FORMATS
from ..core.errors import UsageError
from .checks import refuse_both, refuse_equals_sign
from .codec_jobs import Direction, Naming
from .options import option_group

INPUT = click.Path(exists=True, readable=False, allow_dash=True)


@dataclass(frozen=True)
class CodecOptions:
    """The options of both codec commands, one field for each; either has more of its own."""

    model: Path | None
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

    @property
    def naming(self) -> Naming:
        """What is said about outputs."""
        return Naming(self.output, self.out_dir, self.format_name, self.direction)

    @property
    def concerns_inputs(self) -> bool:
        """Whether an option makes no sense without an input."""
        given = (self.output, self.out_dir, self.format_name, self.direction)
        return any(value is not None for value in given)

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: says which.
        """
        refuse_both(
            ("--quiet", self.quiet, "--verbose", self.verbose),
            ("--encode", self.encode, "--decode", self.decode),
            ("-o", self.output is not None, "--out-dir", self.out_dir is not None),
        )
        refuse_equals_sign(self.output)
        if self.concerns_inputs and not self.all_inputs:
            raise UsageError("missing input: name a file or a folder, or - for standard input")


def path_options() -> Callable[[Any], Any]:
    """Add the inputs and outputs."""
    return option_group(
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
            type=click.Choice(list(FORMATS), case_sensitive=False),
            help="Format of decoded audio; wav is wav16.  [default: by the ending of -o, else wav16]",
        ),
    )
