"""Room for as many connections as a load keeps open: this process's own limit of open files."""

from __future__ import annotations

import resource
from collections.abc import Iterable

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.report import Load

SPARE = 128
"""Open files besides connections: libraries, logs, the report."""


def most_open(loads: Iterable[Load], requests: Iterable[int]) -> int:
    """Connections at once at most; where requests arrive, none need be answered before the last."""
    pairs = zip(loads, requests, strict=True)
    return max((min(load.concurrency or count, count) for load, count in pairs), default=0)


def make_room(connections: int) -> None:
    """Raise the limit as far as it takes. UsageError where the system allows less."""
    needed = connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{connections} requests at once need {needed} open files, and {hard} are allowed here",
            hint=f"--concurrency {max(1, hard - SPARE)}, or raise the limit: ulimit -Hn",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
