"""What one run of a load gave, request by request, and the figures that are made of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, floor

import msgspec

from dflash_deploy.measure.report import Percentiles, Run, Speculation

MOST_REASONS = 5


class Cycles(msgspec.Struct, frozen=True):
    """An engine's own report on the speculation of one request."""

    drafts: float
    draft_tokens: float
    accepted: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One request, seen from outside. Times are seconds since the run began."""

    sent: float
    """When it was due: in an open loop a client that is late is no excuse for the server."""
    first: float | None = None
    """When the first chunk with a token came."""
    ended: float
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    cycles: Cycles | None = None
    error: str | None = None
    """Why it is no answer; such a request counts as failed, whatever came before."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What a server counted over a run, as differences; None: it does not say."""

    drafts: float | None = None
    draft_tokens: float = 0.0
    accepted: float = 0.0
    per_position: tuple[float, ...] = ()
    """Accepted tokens by place in the block: how many."""
    gauge: float | None = None
    cached_tokens: float | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A run before it is summed up."""

    answers: tuple[Answer, ...]
    seconds: float
    """From the first request to the last answer."""
    counted: Counted = Counted()


def merged(samples: Sequence[Sample]) -> Sample:
    """What several clients saw of one load that they shared, each with a server of its own."""
    counted = [sample.counted for sample in samples]
    drafts = [one.drafts for one in counted if one.drafts is not None]
    cached = [one.cached_tokens for one in counted if one.cached_tokens is not None]
    gauges = [one.gauge for one in counted if one.gauge]
    places = max((len(one.per_position) for one in counted), default=0)
    return Sample(
        answers=tuple(answer for sample in samples for answer in sample.answers),
        seconds=max(sample.seconds for sample in samples),
        counted=Counted(
            drafts=sum(drafts) if drafts else None,
            draft_tokens=sum(one.draft_tokens for one in counted),
            accepted=sum(one.accepted for one in counted),
            per_position=tuple(
                sum(one.per_position[place] for one in counted if place < len(one.per_position))
                for place in range(places)
            ),
            gauge=sum(gauges) / len(gauges) if gauges else None,
            cached_tokens=sum(cached) if cached else None,
        ),
    )


def run_of(sample: Sample) -> Run:
    """The figures of a run. Only requests that were answered in full enter times and tokens."""
    full = [answer for answer in sample.answers if answer.error is None]
    reasons = Counter(answer.error for answer in sample.answers if answer.error)
    return Run(
        seconds=sample.seconds,
        requests=len(full),
        failed=reasons.total(),
        errors=tuple(_reasons(reasons)),
        prompt_tokens=sum(answer.prompt_tokens for answer in full),
        cached_tokens=_cached(full, sample.counted),
        output_tokens=sum(answer.output_tokens for answer in full),
        ttft=percentiles(a.first - a.sent for a in full if a.first is not None),
        tpot=percentiles(
            (a.ended - a.first) / (a.output_tokens - 1)
            for a in full
            if a.first is not None and a.output_tokens > 1
        ),
        latency=percentiles(answer.ended - answer.sent for answer in full),
        speculation=speculation(
            [answer.cycles for answer in full if answer.cycles], sample.counted
        ),
    )


def _reasons(reasons: Counter[str]) -> Iterable[str]:
    """The most frequent first, with how often."""
    for reason, times in reasons.most_common(MOST_REASONS):
        yield f"{reason} ({times} times)" if times > 1 else reason


def _cached(answers: list[Answer], counted: Counted) -> int | None:
    said = [answer.cached_tokens for answer in answers if answer.cached_tokens is not None]
    if said:
        return sum(said)
    return None if counted.cached_tokens is None else round(counted.cached_tokens)


def speculation(reports: Sequence[Cycles], counted: Counted) -> Speculation | None:
    """From the server's counters, else from its report on each request, else from its gauge."""
    if counted.drafts is not None:
        return Speculation(
            drafts=counted.drafts,
            draft_tokens=counted.draft_tokens,
            accepted=counted.accepted,
            per_position=tuple(
                count / counted.drafts if counted.drafts else 0.0 for count in counted.per_position
            ),
            source="the server's counters, before and after",
        )
    if reports:
        return Speculation(
            drafts=sum(report.drafts for report in reports),
            draft_tokens=sum(report.draft_tokens for report in reports),
            accepted=sum(report.accepted for report in reports),
            source="the server's report on each request",
        )
    if counted.gauge is None:
        return None
    source = "the server's gauge of its last logging interval"
    return Speculation(drafts=0, draft_tokens=0, accepted=0, gauge=counted.gauge, source=source)


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    mean = sum(ordered) / len(ordered)
    return Percentiles(mean, *(quantile(ordered, share) for share in (0.5, 0.9, 0.99)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest of the sorted values, in proportion: numpy's default."""
    at = share * (len(ordered) - 1)
    low, high = ordered[floor(at)], ordered[ceil(at)]
    return low + (high - low) * (at - floor(at))
