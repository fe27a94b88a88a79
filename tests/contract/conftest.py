"""Each release's verdicts, asked for once: judging all entries takes no more than 15 minutes."""

from __future__ import annotations

import time

import pytest

from tests.contract.engine_cases import RELEASES, Judged, Release, cases, fetch, judge
from tests.contract.refusals import command
from tests.contract.refused_commands import REFUSED

BUDGET_S = 900.0
"""For planning and judging everything, on every release; the first run fetches engines besides."""


@pytest.fixture(scope="session")
def spent() -> dict[Release, float]:
    """Seconds that each release has taken so far."""
    return {}


@pytest.fixture(scope="session", params=RELEASES, ids=str)
def judged(request: pytest.FixtureRequest, spent: dict[Release, float]) -> Judged:
    """A release, and what its own code says of every plan and of every command refused."""
    release: Release = request.param
    fetch(release)
    start = time.monotonic()
    plans = [case.message() for case in cases(release)]
    refused = [command(case) for case in REFUSED if case.release == release]
    left = BUDGET_S - sum(spent.values()) - (time.monotonic() - start)
    verdicts = judge(release, [*plans, *refused], within_s=left)
    spent[release] = time.monotonic() - start
    return release, verdicts
