"""What servers drafted and accepted while they were asked, beside what is on record. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_deploy.measure.report import Speculation
from dflash_deploy.measure.sample import Counted, Cycles, speculation
from dflash_deploy.measure.verified import Accepted
from dflash_deploy.schema import Evidence, Measurement

OnRecord = tuple[float, Evidence, Measurement]
"""An acceptance length, and where it is from."""


def accepted_in(
    reports: Sequence[Cycles],
    dflash: Counted | None,
    plain: Counted | None,
    known: OnRecord | None,
    *,
    tokens: int = 0,
    complete: bool = True,
) -> Accepted:
    """`reports`: the engine's on each answer; the counters of a run that was cut off are None.

    `tokens`: of DFlash's answers, where its server tells them.
    """
    silent = "the server does not say what it drafted" if complete else "not counted to its end"
    found = speculation(reports, dflash or Counted())
    theirs = speculation((), plain or Counted())
    return Accepted(
        length=found.length if found else None,
        drafts=found.drafts if found and found.gauge is None else None,
        drafted=found.draft_tokens / found.drafts if found and found.drafts > 0 else None,
        undrafted=_undrafted(found, tokens) if found and found.gauge is None else None,
        plain_drafts=theirs.drafts if theirs and theirs.gauge is None else None,
        source=found.source if found else silent,
        on_record=known[0] if known else None,
        record=f"{known[2].task}: {known[1].source}" if known else None,
    )


def _undrafted(counted: Speculation, tokens: int) -> float | None:
    brought = counted.drafts + counted.accepted
    return max(0.0, 1 - brought / tokens) if tokens else None
