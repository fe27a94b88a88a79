"""What a server counted over a run: its metrics before and after, and their difference."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dflash_deploy.measure.metrics import (
    SpeculationCounters,
    counters,
    last_length,
    read,
    total,
)
from dflash_deploy.measure.sample import Counted
from dflash_deploy.plan import Endpoint

SETTLED = 0.25
"""Seconds between two readings that must agree: counters follow the answers by a logging step."""
READINGS = 8


@dataclass(frozen=True)
class Reading:
    """Of a server's metrics; None: it has no such metric."""

    speculation: SpeculationCounters | None = None
    gauge: float | None = None
    cached_tokens: float | None = None


def reading(endpoint: Endpoint) -> Reading | None:
    """None: the server shows no metrics. Raises LaunchError if nobody answers."""
    found = read(endpoint)
    if found is None:
        return None
    return Reading(counters(found), last_length(found), total(found, "cached_tokens"))


def counted_since(endpoint: Endpoint, before: Reading | None) -> Counted:
    """The difference, once two readings agree."""
    after = reading(endpoint)
    for _ in range(READINGS):
        if after is None or after == Reading():
            break
        time.sleep(SETTLED)
        last, after = after, reading(endpoint)
        if after == last:
            break
    return difference(before, after)


def difference(before: Reading | None, after: Reading | None) -> Counted:
    """Empty where one of the two was not shown: a total since the start is nobody's run."""
    if before is None or after is None:
        return Counted()
    cached = None
    if before.cached_tokens is not None and after.cached_tokens is not None:
        cached = after.cached_tokens - before.cached_tokens
        cached = cached if cached >= 0 else None
    nothing = SpeculationCounters(0, 0, 0)
    counted = after.speculation and after.speculation.since(before.speculation or nothing)
    if counted is None:
        return Counted(gauge=after.gauge or None, cached_tokens=cached)
    return Counted(
        drafts=counted.drafts,
        draft_tokens=counted.draft_tokens,
        accepted=counted.accepted,
        per_position=counted.per_position,
        cached_tokens=cached,
    )
