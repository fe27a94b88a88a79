"""Requests that wait for room: of a load, fewer are answered at a time than with plain decoding.

A draft takes memory from the cache, and recurrent states are held once for each token of a block.
Pure.
"""

from __future__ import annotations

from statistics import fmean

from dflash_deploy.measure.report import Cell, Run

LATE = 2.0
"""Times plain decoding's own time to the first token: prefill alone takes the same in both."""
SHARE = 0.4
"""Of the time of an answer, before its first token."""
FEWER = 2 / 3
"""Of the requests that plain decoding answers at a time. A server that stands still now and then is
late with first tokens as well, and answers nearly as many."""


def waits(draft: Cell, plain: Cell) -> bool:
    """Whether requests wait so long that it limits the speed, which a cycle's cost does not tell.

    Not of requests that arrive at a rate: those may wait because they arrive too fast. Nor where
    as many prompts a second are taken as with plain decoding: they may wait for their prefill,
    which quick answers leave to be the limit.
    """
    mine, others = until_first(draft), until_first(plain)
    if draft.load.rate is not None or mine is None or others is None:
        return False
    whole = fmean(run.latency.mean for run in draft.runs if run.latency)
    fewer = at_a_time(draft) < FEWER * at_a_time(plain) and _a_second(draft) < _a_second(plain)
    return fewer and mine > LATE * others and mine > SHARE * whole


def until_first(cell: Cell) -> float | None:
    """Mean seconds until the first token, over all repeats."""
    known = [run.ttft.mean for run in cell.runs if run.ttft and run.latency]
    return fmean(known) if known else None


def at_a_time(cell: Cell) -> float:
    """Requests between their first token and their last, on average over a run (Little's law)."""
    return fmean(_answering(run) / run.seconds for run in cell.runs if run.seconds > 0)


def _a_second(cell: Cell) -> float:
    """Requests that were answered, in the mean of the repeats."""
    return fmean(run.requests / run.seconds for run in cell.runs if run.seconds > 0)


def _answering(run: Run) -> float:
    """Seconds of all answers together."""
    return run.requests * (run.latency.mean - run.ttft.mean) if run.latency and run.ttft else 0.0
