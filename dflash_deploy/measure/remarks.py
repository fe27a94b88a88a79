"""What else a report shows: cached prompts, drafts that rest or are unseen, a wrong label. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.measure.gains import RESTS, acceptance, drafts_beyond, undrafted
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tables import inflight

PREFIX = 0.1
"""Share of prompt tokens from the prefix cache that makes the time to the first token too good."""


def remarks(report: Report) -> Iterator[str]:
    prompts = sum(run.prompt_tokens for cell in report.cells for run in cell.runs)
    cached = sum(run.cached_tokens or 0 for cell in report.cells for run in cell.runs)
    if prompts and cached / prompts > PREFIX:
        yield (
            f"the prefix cache answered {cached / prompts:.0%} of the prompt tokens: times to the"
            " first token are better than with prompts that nobody sent before;"
            f" --seed {report.seed + 1} asks others"
        )
    yield from _resting(report)
    yield from _unseen(report)
    yield from _of_another_block(report)
    if report.cells and all(len(cell.runs) == 1 for cell in report.cells):
        yield "each cell ran once: a spread of 5% to either side is assumed; --repeats measures it"


def _resting(report: Report) -> Iterator[str]:
    """Where a schedule has it draft nothing, or the engine found that it loses."""
    drafting = {arm.name for arm in report.arms if arm.method == "dflash"}
    for cell in report.cells:
        share = undrafted([cell]) if cell.arm in drafting else 0.0
        if share >= RESTS:
            yield (
                f"{cell.arm}, {cell.workload}: its draft rests at {inflight(cell.load)}, where"
                f" {share:.0%} of the tokens came without one"
            )


def _unseen(report: Report) -> Iterator[str]:
    """A draft that is never asked looks like a healthy server."""
    for arm in report.arms:
        cells = [cell for cell in report.cells
                 if cell.arm == arm.name and undrafted([cell]) < RESTS]  # fmt: skip
        if arm.method == "dflash" and cells and acceptance(cells) is None:
            yield (
                f"{arm.name}: the server does not say what it accepted: whether it drafts at all"
                " is not known from this"
            )


def _of_another_block(report: Report) -> Iterator[str]:
    """What the user says of a server at a URL is not believed where its counters know better."""
    for arm in report.arms:
        if (drafted := drafts_beyond(report, arm)) and arm.block_size:
            yield (
                f"{arm.name}: its server drafts {drafted:g} tokens a cycle, more than a block of"
                f" {arm.block_size} has: it is no figure of that block"
            )
