"""A report as tables, in the shape that model cards have. Pure; Markdown and HTML draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dflash_deploy.measure.gains import (
    Gain,
    Rate,
    acceptance,
    by_position,
    gains,
    in_figures,
    loads,
    middle,
    rate,
    three_digits,
    tokens_per_step,
)
from dflash_deploy.measure.record import curve, expected_length
from dflash_deploy.measure.report import Arm, Cell, Load, Percentiles, Report
from dflash_deploy.schedule import in_words
from dflash_deploy.schema import Evidence

NONE = "–"  # noqa: RUF001 - an en dash, as tables have it


class Table(msgspec.Struct, frozen=True):
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    legend: tuple[tuple[tuple[str, ...], str], ...] = ()
    """What columns mean, for those that are shown."""


def tables(report: Report, published: Sequence[Evidence]) -> list[Table]:
    """All of them, those without a row left out."""
    found = (
        _accepted(report, published),
        *(_speedup(report, workload.name, published) for workload in report.workloads),
        _positions(report),
        *(_speeds(report, workload.name) for workload in report.workloads),
    )
    return [table for table in found if table.rows]


def named(arm: Arm) -> str:
    """As a column's title: cards write `Block Size = 16`."""
    if arm.method == "dflash" and arm.block_size and not arm.schedule:
        title = f"Block Size = {arm.block_size}"
        return title if arm.name == f"dflash-{arm.block_size}" else f"{title} ({arm.name})"
    return arm.name


def drafting(report: Report) -> list[Arm]:
    return [arm for arm in report.ran if arm.method != "plain"]


def _accepted(report: Report, published: Sequence[Evidence]) -> Table:
    """A row a workload, a column an arm; beside it what is on record for the same block."""
    arms = drafting(report)
    rows = []
    for workload in report.workloads:
        row = [workload.name]
        for arm in arms:
            length = acceptance(_cells(report, arm.name, workload.name))
            row.append(f"{length:.2f}" if length else NONE)
        row.append(_on_record(report, published, workload.name, arms))
        rows.append(tuple(row))
    header = ("Task", *(named(arm) for arm in arms), "On record")
    return Table("Acceptance Length", header, tuple(row for row in rows if {*row[1:-1]} - {NONE}))


def _on_record(
    report: Report, published: Sequence[Evidence], workload: str, arms: Sequence[Arm]
) -> str:
    blocks = dict.fromkeys(arm.block_size for arm in arms if arm.method == "dflash")
    found = [
        f"{known[0]:g} ({known[2].task}, block {block})"
        for block in blocks
        if block
        and (known := expected_length(report.engine, published, workload, block)) is not None
    ]
    return ", ".join(found) or NONE


def _speedup(report: Report, workload: str, published: Sequence[Evidence]) -> Table:
    """A row a load, a column an arm, with its bounds by the repeats; then the record."""
    every = {
        (gain.arm.name, str(gain.load)): gain for gain in gains(report) if gain.workload == workload
    }
    arms = [arm for arm in drafting(report) if any(name == arm.name for name, _ in every)]
    known = [
        found for block in dict.fromkeys(arm.block_size for arm in arms if arm.method == "dflash")
        if (found := curve(report, published, workload, block)) is not None
    ]  # fmt: skip
    rows = [
        (
            label(load),
            *(_gain(every.get((arm.name, str(load)))) for arm in arms),
            *(_at(dict(each.points).get(load.concurrency or 0)) for each in known),
        )
        for load in loads(cell for cell in report.cells if cell.workload == workload)
        if any(str(load) == at for _, at in every)
    ]
    header = ("Concurrency", *(named(arm) for arm in arms), *(each.label for each in known))
    note = "over plain decoding, prefill included; in brackets the bounds by the repeats"
    return Table(f"Speedup: {workload}", header, tuple(rows), note)


def _gain(gain: Gain | None) -> str:
    return f"{gain.mean:.2f}× ({gain.low:.2f}–{gain.high:.2f})" if gain else NONE  # noqa: RUF001


def _at(value: float | None) -> str:
    return f"{value:g}×" if value else NONE  # noqa: RUF001


def _positions(report: Report) -> Table:
    """How often the draft token at each place is accepted, all workloads and loads together."""
    rows = []
    for arm in drafting(report):
        shares = by_position(cell for cell in report.cells if cell.arm == arm.name)
        if shares:
            rows.append((named(arm), *(f"{share:.0%}" for share in shares)))
    places = max((len(row) - 1 for row in rows), default=0)
    filled = tuple((*row, *[NONE] * (places + 1 - len(row))) for row in rows)
    return Table(
        "Acceptance by Position", ("Arm", *(str(place + 1) for place in range(places))), filled,
        "share of the cycles that accepted the draft token at this place",
    )  # fmt: skip


SPEEDS = (
    "Load", "Arm", "tok/s", "±", "TTFT p50/p99", "TPOT p50/p99", "End to end p50/p99",
    "Tokens per step", "Failed",
)  # fmt: skip


def _speeds(report: Report, workload: str) -> Table:
    """Every cell as it was measured."""
    order = {arm.name: number for number, arm in enumerate(report.arms)}
    cells = [cell for cell in report.cells if cell.workload == workload and cell.runs]
    by_load = [
        cell for load in loads(cells)
        for cell in sorted(cells, key=lambda cell: order[cell.arm])
        if str(cell.load) == str(load)
    ]  # fmt: skip
    return Table(
        f"Measured: {workload}", SPEEDS, tuple(_measured(cell) for cell in by_load),
        "milliseconds, of the middle repeat; TTFT: to the first token, TPOT: a token after it",
    )  # fmt: skip


def _measured(cell: Cell) -> tuple[str, ...]:
    found = rate(cell)
    run = middle(cell)
    step = tokens_per_step([cell])
    return (
        label(cell.load),
        cell.arm,
        in_figures(found.mean) if found else "failing",
        _spread(found),
        *(_times(times) for times in (run.ttft, run.tpot, run.latency)),
        f"{step:.2f}" if step else NONE,
        str(sum(run.failed for run in cell.runs)),
    )


def _spread(found: Rate | None) -> str:
    if found is None:
        return NONE
    return f"{found.spread:.1%}" if found.repeats > 1 else "one run"


def _times(times: Percentiles | None) -> str:
    return f"{milliseconds(times.p50)} / {milliseconds(times.p99)}" if times else NONE


def milliseconds(seconds: float) -> str:
    return three_digits(1000 * seconds)


def label(load: Load) -> str:
    return str(load.concurrency) if load.rate is None else f"{load.rate:g} req/s"


def inflight(load: Load) -> str:
    """In a sentence."""
    one = load.rate is None
    return f"{load.concurrency} in flight" if one else f"{load.rate:g} requests a second"


def _cells(report: Report, arm: str, workload: str) -> Iterator[Cell]:
    return (cell for cell in report.cells if (cell.arm, cell.workload) == (arm, workload))


def facts(report: Report) -> list[tuple[str, str]]:
    """What the numbers were measured on and with, as label and value."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    hardware = machine.hardware
    driver = f", driver {hardware.driver}" if hardware.driver else ""
    cards = f"{hardware}{driver}" if hardware.cards else "none: on the CPU"
    return [
        ("Target", report.model + (f", {report.weights} weights" if report.weights else "")),
        ("Draft", draft_of(report)),
        ("Engine", f"{report.engine} {report.version or 'of unknown version'}"),
        ("GPU", cards),
        ("Machine", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:.0f} GiB"),
        ("System", machine.system),
        ("Versions", versions),
        ("Date", report.date),
        ("Sampling", f"temperature {report.temperature:g}, seed {report.seed}"),
        *(("Workload", _asked(report, number)) for number in range(len(report.workloads))),
        *(
            (
                "Schedule",
                f"{arm.name}, draft tokens by requests in a step: {in_words(arm.schedule)}",
            )
            for arm in report.arms
            if arm.schedule
        ),
        ("Command", report.command),
    ]


def draft_of(report: Report) -> str:
    """A server that ran already does not say which it drafts with."""
    return report.draft or ("not known" if drafting(report) else "none")


def _asked(report: Report, number: int) -> str:
    asked = report.workloads[number]
    thinking = f", thinking {asked.thinking}" if asked.thinking else ""
    return (
        f"{asked.name}: {asked.prompts} prompts ({asked.source}), answers of at most"
        f" {asked.max_tokens} tokens{thinking}, sha256 {asked.sha256[:12]}"
    )
