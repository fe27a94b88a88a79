"""A workload in one table for a terminal: a row a load and arm. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_deploy.measure.gains import (
    Gain,
    acceptance,
    gains,
    in_figures,
    loads,
    middle,
    rate,
    three_digits,
    tokens_per_step,
)
from dflash_deploy.measure.record import Curve, curve
from dflash_deploy.measure.report import Cell, Report, Run
from dflash_deploy.measure.tables import Table, label, milliseconds
from dflash_deploy.schema import Evidence

HEADER = ("LOAD", "ARM", "TOK/S", "±", "GAIN", "RECORD", "TTFT", "TPOT", "E2E", "P99", "ACCEPT",
          "STEP", "FAILED")  # fmt: skip
LEGEND = (
    (("GAIN",), "over plain decoding"),
    (("TTFT", "TPOT"), "milliseconds to the first token, for each after"),
    (("E2E", "P99"), "seconds for an answer"),
)
NOTE = "medians of the middle repeat"


def short_tables(report: Report, published: Sequence[Evidence]) -> list[Table]:
    """One for each workload that was measured, without the columns that nothing is known for."""
    found = [_table(report, workload.name, published) for workload in report.workloads]
    return [table for table in found if table.rows]


def _table(report: Report, workload: str, published: Sequence[Evidence]) -> Table:
    gained = {
        (gain.arm.name, str(gain.load)): gain for gain in gains(report) if gain.workload == workload
    }
    known = {
        arm.name: theirs for arm in report.arms
        if arm.method == "dflash" and not arm.schedule
        and (theirs := curve(report, published, workload, arm.block_size)) is not None
    }  # fmt: skip
    cells = [cell for cell in report.cells if cell.workload == workload and cell.runs]
    order = [arm.name for arm in report.arms]
    rows = tuple(
        _row(cell, gained.get((cell.arm, str(load))), known.get(cell.arm))
        for load in loads(cells)
        for cell in sorted(cells, key=lambda cell: order.index(cell.arm))
        if str(cell.load) == str(load)
    )
    at = {(cell.arm, cell.load.concurrency) for cell in cells}
    told = [each.label for arm, each in known.items()
            if any((arm, load) in at for load, _ in each.points)]  # fmt: skip
    sources = tuple((("RECORD",), text) for text in dict.fromkeys(told))
    return _without_empty(Table(workload, HEADER, rows, NOTE, (*LEGEND, *sources)))


def _row(cell: Cell, gain: Gain | None, theirs: Curve | None) -> tuple[str, ...]:
    speed, length, step = rate(cell), acceptance([cell]), tokens_per_step([cell])
    stated = dict(theirs.points).get(cell.load.concurrency or 0) if theirs else None
    failed = sum(run.failed for run in cell.runs)
    return (
        label(cell.load),
        cell.arm,
        in_figures(speed.mean) if speed else "failing",
        f"{speed.spread:.1%}" if speed and speed.repeats > 1 else "",
        f"{gain.mean:.2f}x" if gain else "",
        f"{stated:g}x" if stated else "",
        *_times(middle(cell)),
        f"{length:.2f}" if length else "",
        f"{step:.2f}" if step else "",
        str(failed) if failed else "",
    )


def _times(run: Run) -> tuple[str, str, str, str]:
    whole = run.latency
    return (
        milliseconds(run.ttft.p50) if run.ttft else "",
        milliseconds(run.tpot.p50) if run.tpot else "",
        three_digits(whole.p50) if whole else "",
        three_digits(whole.p99) if whole else "",
    )


def _without_empty(table: Table) -> Table:
    kept = [i for i in range(len(table.header)) if any(row[i] for row in table.rows)]
    return Table(
        table.title, tuple(table.header[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in table.rows), table.note, table.legend,
    )  # fmt: skip
