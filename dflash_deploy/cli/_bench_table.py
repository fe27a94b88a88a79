"""The tables of a benchmark on a terminal, and the lines that belong under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_deploy.cli import _output
from dflash_deploy.measure.gains import acceptance, by_position
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.short_table import short_tables
from dflash_deploy.measure.tables import Table
from dflash_deploy.schema import Evidence

LEFT = ("WORKLOAD", "ARM", "")
EXTRA = {"E2E": 2, "P99": 2, "STEP": 2, "RECORD": 1}
"""Left out where a terminal has no room for all, the highest first."""
DOUBT = 0.1
"""Of a made-up length: short answers scatter, and the last cycle of each is cut."""


def show(report: Report, published: Sequence[Evidence]) -> None:
    """One table a workload, acceptance by place, the prefix cache."""
    for table in short_tables(report, published):
        show_table(table, remark="SYNTHETIC acceptance" if report.synthetic else "")
    _output.text()
    _places(report)
    _cached(report)
    _disobeyed(report)


def show_table(table: Table, *, remark: str = "") -> None:
    _output.text()
    _output.paragraph(table.title + (f" ({remark})" if remark else ""), style="bold")
    columns = [
        _output.Column(name, right=name not in LEFT, extra=EXTRA.get(name, 0))
        for name in table.header
    ]
    below = "; ".join(_below(table, _output.table(columns, table.rows)))
    if below:
        _output.paragraph(below, style="dim")


def _below(table: Table, shown: Sequence[str]) -> Iterator[str]:
    """What the columns mean that there was room for, and which others there are."""
    for names, meaning in table.legend:
        here = [name for name in names if name in shown]
        if here:
            yield f"{', '.join(here)}: {meaning}"
    if table.note:
        yield table.note
    left_out = [name for name in table.header if name not in shown]
    if left_out:
        yield f"no room for {', '.join(left_out)}"


def _places(report: Report) -> None:
    """How often each draft token was right, of the arms whose engine says so."""
    for arm in report.arms:
        shares = by_position([cell for cell in report.cells if cell.arm == arm.name])
        if shares:
            made = " (made up)" if arm.synthetic_length else ""
            _output.paragraph(f"{arm.name}, accepted by place{made}, %: {_percent(shares)}")


def _percent(shares: Sequence[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)


def _disobeyed(report: Report) -> None:
    """Made-up acceptance that the engine did not make up: its speeds mean something else."""
    for arm in report.arms:
        length = acceptance([cell for cell in report.cells if cell.arm == arm.name])
        asked = arm.synthetic_length
        if asked and length and not arm.schedule and abs(length - asked) > DOUBT * asked:
            _output.warning(
                f"{arm.name} was to make up {asked:.2f} tokens a cycle, and {length:.2f} were"
                f" counted: {report.engine} {report.version} does something else here"
            )


def _cached(report: Report) -> None:
    runs = [run for cell in report.cells for run in cell.runs if run.cached_tokens is not None]
    if runs:
        cached, prompts = (
            sum(r.cached_tokens or 0 for r in runs),
            sum(r.prompt_tokens for r in runs),
        )
        _output.text(f"prefix cache: {cached} of {prompts} prompt tokens")
