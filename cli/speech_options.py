"""What the commands that speak have in common on their command lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .options import option_group


@dataclass(frozen=True)
class SpeechOptions:
    """The options of all commands that speak, one field for each; every command has more of its own."""

    model: Path | None
    codec: Path | None
    output: str | None
    format_name: str | None
    instruct: str | None
    ref_wav: Path | None
    ref_rvq: Path | None
    ref_text: Path | None
    stream_by_line: bool
    fail_fast: bool
    seed: int
    device: str | None
    threads: int | None
    no_fa: bool
    clamp_fp16: bool
    dump: Path | None
    list_languages: bool
    list_devices: bool
    quiet: bool
    verbose: bool

    @property
    def wanted_seed(self) -> int | None:
        """The seed; None for a random one."""
        return self.seed if self.seed >= 0 else None

    @property
    def files_read(self) -> dict[str, Path | None]:
        """What is read, by the options that name it."""
        return {
            "--model": self.model,
            "--codec": self.codec,
            "--ref-wav": self.ref_wav,
            "--ref-text": self.ref_text,
            "--ref-rvq": self.ref_rvq,
        }


def line_options() -> Callable[[Any], Any]:
    """Add what concerns lines that are spoken one by one."""
    return option_group(
        click.option(
            "--stream-by-line",
            is_flag=True,
            help="With -o -: speak each line as it arrives, each with a header of its own.",
        ),
        click.option(
            "--fail-fast", is_flag=True, help="With --stream-by-line: stop at the first line that fails."
        ),
    )


def dump_option() -> Callable[[Any], Any]:
    """Add `--dump`."""
    return click.option(
        "--dump",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Write the stages of the model here, as float32 .bin files.",
    )


def device_list_option() -> Callable[[Any], Any]:
    """Add `--list-devices`."""
    return click.option("--list-devices", is_flag=True, help="Print the devices that --device takes.")


def print_devices() -> None:
    """Do what `--list-devices` asks for."""
    from ..core.engine import devices

    for device in devices():
        gigabytes = device.memory_total / 2**30
        click.echo(f"{device.name}  {device.description}  {gigabytes:.1f} GiB")
