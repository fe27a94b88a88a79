"""What a server does at the moment: the difference between two readings of its counters. Pure.

Counters are compared series by series and then summed over ranks. Where one fell, the server began
again, and all of them count from zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

import msgspec

from dflash_deploy.metric_names import MetricNames

DIGITS = 3
"""Of a place in a block."""
Labels = frozenset[tuple[str, str]]
Series = Mapping[Labels, float]


@dataclass(frozen=True)
class Reading:
    """One look at a server's metrics. A histogram is read as two series: its sum and its count."""

    at: float
    """Seconds, on a clock that no one sets."""
    counters: Mapping[str, Series] = field(default_factory=dict)
    """By meaning; `ttft sum` and `ttft count` of a histogram."""
    gauges: Mapping[str, Series] = field(default_factory=dict)


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen between two readings; None: nothing happened, or the engine does not say."""

    acceptance_length: float | None = None
    """Tokens a draft-verify cycle yields, bonus included."""
    cycles: int | None = None
    """Draft-verify cycles that were counted; None where only a gauge tells."""
    acceptance_by_position: tuple[float, ...] = ()
    """The share of cycles that took the draft's first token, its second, and so on."""
    tokens_per_second: float | None = None
    ttft_seconds: float | None = None
    """Mean over the requests that got their first token."""
    tpot_seconds: float | None = None
    """Mean seconds a token, the first of each request left out."""
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    """Of the fullest rank, from 0 to 1."""


def reading(text: str, names: MetricNames, at: float) -> Reading:
    """An exposition, by meaning. Raises ValueError for what is none."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = _wanted(names)
    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for key, (label, value) in wanted.get(sample.name, {}).items():
                fits = label is None or sample.labels.get(label) == value
                if fits and isfinite(sample.value):
                    found[key][frozenset(sample.labels.items())] = sample.value
    gauges = {meaning for meaning, metric in names.items() if metric.type == "gauge"}
    return Reading(
        at,
        {key: series for key, series in found.items() if key not in gauges},
        {key: series for key, series in found.items() if key in gauges},
    )


def _wanted(names: MetricNames) -> dict[str, dict[str, tuple[str | None, str | None]]]:
    """Which samples are kept: their names, and under which keys, with the label they must bear."""
    wanted: dict[str, dict[str, tuple[str | None, str | None]]] = defaultdict(dict)
    for meaning, metric in names.items():
        label = (metric.label.name, metric.label.value) if metric.label else (None, None)
        if metric.type == "histogram":
            for part in ("sum", "count"):
                wanted[f"{metric.name}_{part}"][f"{meaning} {part}"] = label
        else:
            wanted[metric.name][meaning] = label
    return wanted


def numbers(after: Reading, before: Reading | None = None) -> Numbers:
    """Between two readings; with one alone: since the server started, and no speed."""
    counted = _Counted(after, before and _comparable(after, before))
    passed = after.at - before.at if before else 0.0
    generated = counted.total("generated_tokens")
    return Numbers(
        acceptance_length=_acceptance_length(counted),
        cycles=round(drafts) if (drafts := counted.total("drafts")) else None,
        acceptance_by_position=_by_position(counted),
        tokens_per_second=generated / passed if generated is not None and passed > 0 else None,
        ttft_seconds=_ratio(counted.total("ttft sum"), counted.total("ttft count")),
        tpot_seconds=_ratio(counted.total("tpot sum"), counted.total("tpot count")),
        running=_sum(after, "running"),
        waiting=_sum(after, "waiting"),
        kv_usage=max(after.gauges.get("kv_usage", {}).values(), default=None),
    )


def _comparable(after: Reading, before: Reading) -> Reading:
    """The earlier reading, or an empty one where the server began again since."""
    fell = any(
        value < before.counters.get(key, {}).get(labels, 0.0)
        for key, series in after.counters.items()
        for labels, value in series.items()
    )
    return Reading(before.at) if fell else before


@dataclass(frozen=True)
class _Counted:
    after: Reading
    before: Reading | None

    def by_series(self, key: str) -> Series | None:
        """The increase of each series; one that is new came up from zero."""
        after = self.after.counters.get(key)
        if after is None:
            return None
        before = self.before.counters.get(key, {}) if self.before else {}
        return {labels: value - before.get(labels, 0.0) for labels, value in after.items()}

    def total(self, key: str) -> float | None:
        increases = self.by_series(key)
        return None if increases is None else sum(increases.values())


def _acceptance_length(counted: _Counted) -> float | None:
    drafts = counted.total("drafts")
    accepted, verified = counted.total("accepted_tokens"), counted.total("verified_tokens")
    if drafts and accepted is not None:
        return 1 + accepted / drafts
    if drafts and verified:
        return verified / drafts
    # no request ended yet, or nothing is counted: a gauge of the engine's own last interval,
    # which stays where it was when the server falls idle; ranks that never worked say 0
    if counted.before is not None and not _sum(counted.after, "running"):
        return None
    active = [v for v in counted.after.gauges.get("acceptance_length", {}).values() if v > 0]
    return sum(active) / len(active) if active else None


def _by_position(counted: _Counted) -> tuple[float, ...]:
    drafts, accepted = counted.total("drafts"), counted.by_series("accepted_per_position")
    if not drafts or accepted is None:
        return ()
    places: dict[int, float] = defaultdict(float)
    for labels, value in accepted.items():
        if (place := place_of(labels)) is not None:
            places[place] += value
    return tuple(places[place] / drafts for place in range(max(places, default=-1) + 1))


def place_of(labels: Labels) -> int | None:
    """Which place in the block a series counts; None: none that a block could have."""
    said = dict(labels).get("position", "0")
    return int(said) if said.isascii() and said.isdecimal() and len(said) <= DIGITS else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _sum(at: Reading, key: str) -> int | None:
    found = at.gauges.get(key)
    return round(sum(found.values())) if found else None
