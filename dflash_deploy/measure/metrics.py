"""What a server says about its speculation: counters, or a gauge of its last interval.

What a release calls them stands in the registry, `metrics` of its engine.
"""

from __future__ import annotations

from functools import cache

import msgspec
from packaging.version import InvalidVersion

from dflash_deploy.measure.connection import connect, unreachable
from dflash_deploy.measure.live import Reading, place_of, reading
from dflash_deploy.metric_names import MetricNames, metric_names
from dflash_deploy.plan import Endpoint
from dflash_deploy.registry import load
from dflash_deploy.schema import EngineName

TIMEOUT = 10.0


class SpeculationCounters(msgspec.Struct, frozen=True):
    """Totals since the server started, over all of its engines."""

    drafts: float
    """Draft-verify cycles of one request each."""
    draft_tokens: float
    accepted: float
    """Draft tokens the target agreed with; the bonus token is not among them."""
    per_position: tuple[float, ...] = ()
    """Accepted tokens by place in the block, the first draft token first."""

    def since(self, earlier: SpeculationCounters) -> SpeculationCounters | None:
        """What was counted between the two. None: one fell, as after a server began again."""
        fell = self.drafts < earlier.drafts or self.accepted < earlier.accepted
        if fell or self.draft_tokens < earlier.draft_tokens:
            return None
        padded = earlier.per_position + (0.0,) * len(self.per_position)
        return SpeculationCounters(
            self.drafts - earlier.drafts,
            self.draft_tokens - earlier.draft_tokens,
            self.accepted - earlier.accepted,
            tuple(now - then for now, then in zip(self.per_position, padded, strict=False)),
        )

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a cycle yields, the bonus token included: 1 + accepted / drafts."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None


def counters(found: Reading) -> SpeculationCounters | None:
    """Summed over every label; None: the server does not count them, or does not speculate."""
    if "drafts" not in found.counters or "accepted_tokens" not in found.counters:
        return None
    places: dict[int, float] = {}
    for labels, value in found.counters.get("accepted_per_position", {}).items():
        if (place := place_of(labels)) is not None:
            places[place] = places.get(place, 0.0) + value
    return SpeculationCounters(
        total(found, "drafts") or 0.0,
        total(found, "draft_tokens") or 0.0,
        total(found, "accepted_tokens") or 0.0,
        tuple(places.get(place, 0.0) for place in range(max(places, default=-1) + 1)),
    )


def total(found: Reading, meaning: str) -> float | None:
    """A counter over all ranks; None: it is not counted."""
    series = found.counters.get(meaning)
    return None if series is None else sum(series.values())


def last_length(found: Reading) -> float | None:
    """The acceptance length of the last logging interval: the mean of the ranks that worked.

    None: the server has no such gauge; 0: no rank worked.
    """
    values = found.gauges.get("acceptance_length")
    if values is None:
        return None
    active = [value for value in values.values() if value > 0]
    return sum(active) / len(active) if active else 0.0


def read(endpoint: Endpoint) -> Reading | None:
    """All that the registry knows of its metrics. None: it shows none. Raises LaunchError."""
    text = read_metrics(endpoint)
    if text is None:
        return None
    try:
        return reading(text, names_of(endpoint.engine, endpoint.version), 0)
    except ValueError:  # a page of something in between
        return None


def read_counters(endpoint: Endpoint) -> SpeculationCounters | None:
    """None: metrics are off, or it does not speculate or count."""
    found = read(endpoint)
    return counters(found) if found else None


@cache
def names_of(engine: EngineName, version: str | None) -> MetricNames:
    """What a release calls what it counts; the newest one where the version says nothing."""
    known = load(user=False).engines[engine]
    newest = known.releases[-1].version
    try:
        return metric_names(known, version or newest)
    except InvalidVersion:
        return metric_names(known, newest)


def read_metrics(endpoint: Endpoint, *, timeout: float = TIMEOUT) -> str | None:
    """The exposition; None where the server shows none. Raises LaunchError if nobody answers.

    What answers requests and keeps its metrics to itself, or fails to tell them, is no dead server.
    """
    import httpx

    try:
        with connect(endpoint, read_timeout=timeout) as client:
            # both engines redirect from the mounted application's path to the one with a slash
            answer = client.get("/metrics", follow_redirects=True)
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    return answer.text if answer.status_code == httpx.codes.OK else None
