"""The table of a benchmark: a row an arm and load, with what its repeats differ by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from dflash_deploy.cli import _output
from dflash_deploy.cli._output import Column
from dflash_deploy.measure.gains import (
    acceptance,
    by_position,
    gains,
    size,
    tokens_per_step,
)
from dflash_deploy.measure.report import Cell, Percentiles, Report, Run

COLUMNS = (
    Column("LOAD"), Column("ARM"), Column("TOK/S", right=True), Column("+-", right=True),
    Column("GAIN", right=True), Column("TTFT/ms", right=True), Column("TPOT/ms", right=True),
    Column("E2E/s", right=True), Column("P99/s", right=True, extra=True),
    Column("ACCEPT", right=True), Column("STEP", right=True, extra=True),
)  # fmt: skip
FAILED = Column("FAILED", right=True)
DOUBT = 0.1
"""Of a made-up length: short answers scatter, and the last cycle of each is cut."""
LONG = 10.0
"""From here on one decimal says enough of a time."""


def show(report: Report) -> None:
    """One table a workload; times are medians, P99 the slowest of a hundred."""
    if report.synthetic:
        _output.text("SYNTHETIC: acceptance was made up; speeds are the engine's, not the draft's.")
    failures = any(run.failed for cell in report.cells for run in cell.runs)
    columns = (*COLUMNS, FAILED) if failures else COLUMNS
    for workload in report.workloads:
        cells = [cell for cell in ordered(report) if cell.workload == workload.name]
        if not cells:
            continue
        if len(report.workloads) > 1:
            _output.text(_output.bold(workload.name))
        _output.table(columns, [row(report, cell)[: len(columns)] for cell in cells])
        _output.text()
    _places(report)
    _cached(report)
    _disobeyed(report)


def ordered(report: Report) -> list[Cell]:
    names = [arm.name for arm in report.arms]
    return sorted(report.cells, key=lambda cell: (size(cell.load), names.index(cell.arm)))


def row(report: Report, cell: Cell) -> tuple[str, ...]:
    gain = next(
        (g.mean for g in gains(report)
         if (g.arm.name, g.load, g.workload) == (cell.arm, cell.load, cell.workload)), None,
    )  # fmt: skip
    rates = [run.tokens_per_second for run in cell.runs]
    mean = fmean(rates)
    spread = (max(rates) - min(rates)) / 2 / mean if mean and len(rates) > 1 else None
    length, step = acceptance([cell]), tokens_per_step([cell])
    return (
        str(cell.load),
        cell.arm,
        f"{mean:.1f}",
        "" if spread is None else f"{spread:.0%}",
        f"{gain:.2f}x" if gain else "",
        _time(cell, lambda run: run.ttft, "p50", 1000),
        _time(cell, lambda run: run.tpot, "p50", 1000),
        _time(cell, lambda run: run.latency, "p50"),
        _time(cell, lambda run: run.latency, "p99"),
        f"{length:.2f}" if length else "",
        f"{step:.2f}" if step else "",
        f"{sum(run.failed for run in cell.runs)}",
    )


def _time(
    cell: Cell, of: Callable[[Run], Percentiles | None], which: str, scale: float = 1
) -> str:  # fmt: skip
    found = [scale * getattr(times, which) for run in cell.runs if (times := of(run))]
    if not found:
        return ""
    mean = fmean(found)
    return f"{mean:.1f}" if mean >= LONG else f"{mean:.2f}"


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
