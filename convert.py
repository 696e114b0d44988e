#!/usr/bin/env python3
"""Convert Hugging Face checkpoints to GGUF files. Everything it does is `ggtts.core.convert`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from ggtts.core import convert
from ggtts.core.errors import GgttsError, ModelFileError

CHECKPOINTS = Path("checkpoints")
MODELS = Path("models")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=MODELS,
    show_default=True,
    help="Folder for the GGUF files.",
)
@click.option(
    "--outtype",
    type=click.Choice(convert.OUTPUT_TYPES, case_sensitive=False),
    default="f32",
    show_default=True,
    help="Type of matrices; auto keeps what the checkpoint has.",
)
@click.option("--force", is_flag=True, help="Write files again that exist.")
def main(folders: tuple[Path, ...], out: Path, outtype: str, force: bool) -> None:
    """Convert model FOLDERS, or all of checkpoints/ without any.

    A folder holds one checkpoint (config.json, safetensors, tokenizer files), or several such folders.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        sys.exit(run(console, folders, out, outtype.lower(), force))
    except GgttsError as error:
        sys.exit(report(console, error))
    except KeyboardInterrupt:
        sys.exit(130)


def run(console: Console, folders: tuple[Path, ...], out: Path, outtype: str, force: bool) -> int:
    """Convert everything asked for, one model after the other; return the exit code.

    A model that fails is reported and does not keep the others from being converted.
    """
    found = convert.resolve(folders) if folders else convert.discover(CHECKPOINTS)
    for folder, reason in found.skipped:
        console.print(f"skipped {folder.name}: {reason}", style="dim", markup=False)
    if not found.models:
        raise ModelFileError(f"{CHECKPOINTS}: holds no checkpoint that can be converted")
    exit_code, planned = 0, []
    for folder, _ in found.models:
        try:
            plan = convert.plan_folder(folder)
            planned.append((folder, plan, convert.output_path(plan, outtype, out)))
        except GgttsError as error:
            exit_code = report(console, error)
    convert.require_distinct((folder, path) for folder, _, path in planned)
    for _, plan, path in planned:
        if path.exists() and not force:
            console.print(f"skipped {path}: exists", style="dim", markup=False)
            continue
        try:
            write(console, plan, path, outtype)
        except GgttsError as error:
            exit_code = report(console, error)
    return exit_code


def write(console: Console, plan: convert.ModelPlan, path: Path, outtype: str) -> None:
    """Write one model and say what was written."""
    with progress_bar(console, path.name) as progress:
        done = convert.convert_plan(plan, path, outtype, progress)
    for warning in done.warnings:
        console.print(f"warning: {path.name}: {warning}", style="yellow", markup=False)
    console.print(f"wrote {path}: {done.tensors} tensors, {done.size / 1e6:.1f} MB", markup=False)


def report(console: Console, error: GgttsError) -> int:
    """Print an error as one line and return its exit code."""
    console.print(f"convert.py: {error}", style="red", markup=False)
    return error.exit_code


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar of written bytes while a file is made; it leaves nothing behind."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


if __name__ == "__main__":
    main()
