"""What `ggtts inspect` prints: the facts about a file as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.formats.kinds import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..core.inspection import Report, TensorGroup
    from ..core.inspection.report import Value

LISTED = 40
"""Names that a table spells out; JSON has all."""
NARROWEST = 60
"""Columns of the narrowest table that still says something; a narrower terminal breaks its lines."""


def print_report(report: Report) -> None:
    """Print one report: what it is, what it says, what is in it, what is odd, how to run it."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, NARROWEST)
    console.print(
        f"[bold]{escape(escaped(report.path))}[/bold]: {escape(escaped(report.what))}, {megabytes(report.size)} MB"
    )
    if report.problem:
        console.print(f"cannot be used: {escaped(report.problem)}", style="red", markup=False)
    _print_facts(console, report)
    if report.groups:
        console.print(_groups_table(report.groups))
    for oddity in report.oddities:
        console.print(f"odd: {escaped(oddity)}", style="yellow", markup=False)
    for line in report.run_with:
        console.print(f"run: {escaped(line)}", style="green", markup=False)
    console.print()


def _print_facts(console: Console, report: Report) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, facts in report.facts.items():
        rows = [(name, text) for name, value in facts.items() if (text := _shown(value))]
        if rows:
            table.add_row(Text(heading, style="bold"), "")
        for name, text in rows:
            table.add_row(Text(f"  {escaped(name)}"), Text(text))
    if table.row_count:
        console.print(table)


def _groups_table(groups: Sequence[TensorGroup]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("part", "type"):
        table.add_column(title)
    for title in ("tensors", "parameters", "MB"):
        table.add_column(title, justify="right")
    previous = None
    for group in groups:
        part = "" if group.part == previous else escaped(group.part)
        table.add_row(
            Text(part),
            group.dtype,
            str(group.tensors),
            f"{group.parameters:,}",
            megabytes(group.bytes),
        )
        previous = group.part
    counts = (sum(group.tensors for group in groups), sum(group.parameters for group in groups))
    size = sum(group.bytes for group in groups)
    table.add_row("all", "", str(counts[0]), f"{counts[1]:,}", megabytes(size), style="bold")
    return table


def _shown(value: Value) -> str:
    """Return a value as a table shows it, empty for what there is nothing to say of."""
    if value is None or value == "" or value == []:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (str, float)):
        return escaped(str(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {number:g}" for name, number in value.items() if number)
    names = [escaped(name) for name in value]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def megabytes(size: int) -> str:
    """Return bytes as decimal megabytes."""
    return f"{size / 1e6:,.1f}" if size >= 1e5 else f"{size / 1e6:,.4f}"
