"""What is on record for the pair that a report is of: published and measured numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dflash_deploy.measure.report import Report
from dflash_deploy.published import speedup
from dflash_deploy.registry import Entry
from dflash_deploy.schema import EngineName, Evidence, Measurement


class Curve(msgspec.Struct, frozen=True):
    """Gains over plain decoding by requests in flight, as somebody published them."""

    points: tuple[tuple[int, float], ...]
    task: str
    block: int
    evidence: Evidence

    @property
    def label(self) -> str:
        """Where it is from, in a few words."""
        where = (
            self.evidence.engine,
            self.evidence.version,
            self.evidence.gpu,
            self.evidence.build,
        )
        said = " ".join(part for part in where if part)
        whose = "published" if self.evidence.outcome == "published" else "on record"
        return f"{whose}: {self.task}, {said}, block {self.block}"


def published_for(entry: Entry, draft: str | None) -> list[Evidence]:
    """The entry's evidence for that draft; None: for its first. What was made up is left out."""
    first = entry.model.drafts[0].id if entry.model.drafts else None
    return [
        evidence for evidence in entry.model.evidence
        if (evidence.draft or first) == (draft or first) and not evidence.synthetic
    ]  # fmt: skip


def nearest(
    engine: EngineName, published: Sequence[Evidence], task: str, block: int | None
) -> list[tuple[Evidence, Measurement]]:
    """Rows to compare a workload with, the likest first: its own task before an average, of several
    alike the latest.

    Only of this block: a shorter one accepts less, whatever the draft.
    """
    if block is None:
        return []
    rows = [
        (evidence, row)
        for evidence in published
        for row in evidence.results
        if (row.block_size or evidence.block_size) == block and row.task in (task, "average")
    ]
    rows.sort(key=lambda each: each[0].date or "", reverse=True)
    return sorted(
        rows,
        key=lambda each: (
            each[1].task != task,
            each[0].engine != engine,
            each[0].build is not None,
        ),
    )


def expected_length(
    engine: EngineName, published: Sequence[Evidence], task: str, block: int | None
) -> tuple[float, Evidence, Measurement] | None:
    """The acceptance length to compare with, and where it is from.

    Without a row of this task or an average, the lowest on record of this block: a draft that falls
    far below its worst task is in trouble whatever it is asked.
    """
    for evidence, row in nearest(engine, published, task, block):
        if row.acceptance_length:
            return row.acceptance_length, evidence, row
    others = [
        (row.acceptance_length, evidence, row)
        for evidence in published
        for row in evidence.results
        if block and row.acceptance_length and (row.block_size or evidence.block_size) == block
    ]
    return min(others, key=lambda each: each[0], default=None)


def curve(
    report: Report, published: Sequence[Evidence], task: str, block: int | None
) -> Curve | None:
    """Published gains of this block over loads: of this task, else of another that is named.

    Of several sources the one of this engine, then with the most loads, then the latest. The
    embedded engine stands beside itself alone, be it at one load: gains on a CPU are not those of
    servers on GPUs.
    """
    if block is None:
        return None
    embedded = report.engine == "transformers"
    found = [
        each
        for evidence in published
        for name in dict.fromkeys(row.task for row in evidence.results)
        if (evidence.engine == report.engine or not embedded)
        and len((each := _curve(evidence, name, block)).points) > (0 if embedded else 1)
    ]

    def rank(each: Curve) -> tuple[bool, bool, bool, int, str]:
        of = each.evidence
        alike = (each.task == task, of.build is None, of.engine == report.engine)
        return (*alike, len(each.points), of.date or "")

    return max(found, key=rank, default=None)


def _curve(evidence: Evidence, task: str, block: int) -> Curve:
    points = [
        (row.concurrency, gain)
        for row in evidence.results
        if row.task == task
        and (row.block_size or evidence.block_size) == block
        and row.concurrency
        and (gain := speedup(row)) is not None
    ]
    return Curve(tuple(sorted(points)), task, block, evidence)
