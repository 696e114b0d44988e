"""What `quantize` prints: what tensors become, and how good a file is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..core.formats.kinds import escaped
from .inspect_tables import NARROWEST

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..core.convert.quality import QualityReport, Stage
    from ..core.convert.quantize import QuantizePlan

STAGES_SHOWN = 9
"""Of many layers the first, the last and some between are shown; JSON has all."""


def print_plan(plan: QuantizePlan, *, as_json: bool = False, to_stderr: bool = False) -> None:
    """Print what every tensor becomes and what the file will weigh."""
    if as_json:
        click.echo(json.dumps(_plan_values(plan), indent=2))
        return
    console = _console(to_stderr=to_stderr)
    table = _table("tensor", "shape", "from", "to", "MB", "why", right=(4,))
    for tensor in plan.tensors:
        target = tensor.target
        kind = target.kind.name if not tensor.copied else f"{target.kind.name} (as it is)"
        shape = " x ".join(map(str, target.shape))
        _add_row(
            table, target.name, shape, tensor.source.kind.name, kind, _megabytes(target.size), tensor.why
        )
    console.print(table)
    total = _table("type", "tensors", "MB", right=(1, 2))
    for name, (count, size) in plan.counts().items():
        _add_row(total, name, str(count), _megabytes(size))
    total.add_row("all", str(len(plan.tensors)), _megabytes(plan.size), style="bold")
    console.print(total)
    click.echo(
        f"{plan.type_name}: {_megabytes(plan.source_size)} MB -> {_megabytes(plan.size)} MB, "
        f"{plan.bits_per_value:.2f} bits per value",
        err=to_stderr,
    )


def _plan_values(plan: QuantizePlan) -> dict[str, Any]:
    return {
        "architecture": plan.architecture,
        "type": plan.type_name,
        "source_bytes": plan.source_size,
        "bytes": plan.size,
        "bits_per_value": plan.bits_per_value,
        "tensors": [
            {
                "name": tensor.target.name,
                "shape": tensor.target.shape,
                "from": tensor.source.kind.name,
                "to": tensor.target.kind.name,
                "bytes": tensor.target.size,
                "why": tensor.why,
            }
            for tensor in plan.tensors
        ],
    }


def print_report(report: QualityReport, *, as_json: bool = False) -> None:
    """Print a comparison as tables that end in a verdict."""
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
        return
    console = _console()
    files = _table("", "file", "type", "MB", right=(3,))
    for role, summary in (("reference", report.reference), ("compared", report.quantised)):
        _add_row(files, role, summary.path, summary.file_type, _megabytes(summary.size))
    console.print(files)
    stages = _table("stage", "cosine", "worst prompt", right=(1, 2))
    for stage in shown_stages(report.stages):
        _add_row(stages, stage.name, f"{stage.cosine:.6f}", f"{stage.lowest:.6f}")
    console.print(stages)
    decisions = _table("same decision", "share", "of", right=(1, 2))
    for agreement in report.agreements:
        _add_row(decisions, agreement.name, f"{agreement.share:.1%}", str(agreement.total))
    console.print(decisions)
    figures = _table("figure", "value", "unit", "better", right=(1,))
    for figure in report.figures:
        _add_row(figures, figure.name, f"{figure.value:.4g}", figure.unit, figure.better)
    console.print(figures)
    click.echo(f"{report.basis}\nverdict: {report.verdict}")


def shown_stages(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages of a table: of a row of numbered layers only some."""
    layers = [stage for stage in stages if stage.name.startswith("layer ")]
    if len(layers) <= STAGES_SHOWN:
        return list(stages)
    last = len(layers) - 1
    kept = {layers[round(index * last / (STAGES_SHOWN - 1))].name for index in range(STAGES_SHOWN)}
    return [stage for stage in stages if not stage.name.startswith("layer ") or stage.name in kept]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"


def _console(*, to_stderr: bool = False) -> Console:
    from rich.console import Console

    # In a file or a pipe no line is folded to the width of a terminal that is not there.
    console = Console(stderr=to_stderr, highlight=False)
    console.width = max(console.width, NARROWEST) if console.file.isatty() else 180
    return console


def _table(*columns: str, right: tuple[int, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    return table


def _add_row(table: Table, *cells: str) -> None:
    """Add a row whose cells are shown as they are: names in files may look like markup, or be no text."""
    from rich.text import Text

    table.add_row(*(Text(escaped(cell)) for cell in cells))
