"""`convert.py`: GGUF files of Hugging Face checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ..core.errors import GgttsError, ModelFileError
from .errors import explain, report, run_and_exit
from .options import SETTINGS, version_option
from .progress import byte_progress

if TYPE_CHECKING:
    from ..core.convert import ModelPlan

NAME = "convert.py"
CHECKPOINTS = Path("checkpoints")
OUTPUT_TYPES = ("f32", "f16", "bf16", "auto")


@click.command(NAME, context_settings=SETTINGS)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER...]")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="models",
    show_default=True,
    help="Folder for the GGUF files.",
)
@click.option(
    "--outtype",
    type=click.Choice(OUTPUT_TYPES, case_sensitive=False),
    default="f32",
    show_default=True,
    help="Type of matrices; auto keeps what the checkpoint has.",
)
@click.option("--force", is_flag=True, help="Write files again that exist.")
@version_option()
def command(folders: tuple[Path, ...], out: Path, outtype: str, force: bool) -> None:
    """Convert model FOLDERs, or all of checkpoints/ without any, to GGUF files.

    \b
    ./convert.py                                           every checkpoint in checkpoints/, to models/
    ./convert.py FOLDER --out models --outtype bf16

    A FOLDER holds one checkpoint (config.json, safetensors, tokenizer files), or several such folders. Smaller types:
    ./quantize.py
    """
    from ..core.convert import output_path, require_distinct
    from ..core.output_files import make_folder

    planned, failures = _plan(folders)
    outputs = [(folder, plan, output_path(plan, outtype, out)) for folder, plan in planned]
    require_distinct((folder, path) for folder, _, path in outputs)
    if any(force or not path.exists() for _, _, path in outputs):
        make_folder(out)
    for _, plan, path in outputs:
        if path.exists() and not force:
            click.echo(f"skipped {path}: exists", err=True)
            continue
        try:
            _write(plan, path, outtype)
        except GgttsError as error:
            failures.append(error)
            report(NAME, explain(error))
    if failures:
        raise click.exceptions.Exit(failures[-1].exit_code)


def _plan(folders: Sequence[Path]) -> tuple[list[tuple[Path, ModelPlan]], list[GgttsError]]:
    """Return the plans of everything asked for, and why others have none: they do not keep the rest from conversion."""
    from ..core import convert

    found = convert.resolve(folders) if folders else convert.discover(CHECKPOINTS)
    for folder, reason in found.skipped:
        report(NAME, f"skipped {folder.name}: {reason}", "note")
    if not found.models:
        raise ModelFileError(f"{CHECKPOINTS}: holds no checkpoint that can be converted")
    planned: list[tuple[Path, ModelPlan]] = []
    failures: list[GgttsError] = []
    for folder, _ in found.models:
        try:
            planned.append((folder, convert.plan_folder(folder)))
        except GgttsError as error:
            failures.append(error)
            report(NAME, explain(error))
    return planned, failures


def _write(plan: ModelPlan, path: Path, outtype: str) -> None:
    """Write one model and say what was written."""
    from ..core.convert import convert_plan

    with byte_progress(path.name, shown=True) as progress:
        done = convert_plan(plan, path, outtype, progress)
    for warning in done.warnings:
        report(NAME, f"{path.name}: {warning}", "warning")
    click.echo(f"wrote {path}: {done.tensors} tensors, {done.size / 1e6:.1f} MB", err=True)


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
