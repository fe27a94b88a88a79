"""Rules for Prometheus: what to record of a plan's server, and when to wake somebody. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dflash_deploy.measure.verdict import COLLAPSED, LOW
from dflash_deploy.metric_names import MetricNames
from dflash_deploy.plan import Plan
from dflash_deploy.render.documents import dump
from dflash_deploy.render.recorded import KEYS, Names, quoted, recorded

UNKNOWN_LOW = 1.3
"""Tokens a cycle, where nothing is on record: less than that hardly pays for the draft."""
TOO_GOOD = 1.5
"""Times the highest on record: answers that go round in circles are easy to draft."""
WHOLE = 0.95
"""Of the block, beyond which every draft token was accepted."""
FIRST_TOKEN = 5.0
"""Seconds to the first token that one request in twenty may take."""
BUSY = 1.0
"""Tokens a second: less is a health check."""
FULL = 0.95
"""Of the cache: requests are about to be put off."""


@dataclass(frozen=True)
class Alert:
    """When somebody is told, and what."""

    name: str
    expr: str
    minutes: int
    """How long it must hold."""
    summary: str
    description: str
    severity: Literal["warning", "critical"] = "warning"


def render(plan: Plan, names: MetricNames) -> str:
    """A rule file with two groups, recording before alerting."""
    model = plan.served_names[0]
    name = f"dflash {plan.served_names[-1]} {plan.engine}"
    groups = [
        {"name": name, "rules": [*recorded(Names(names, model), plan.engine), *on_record(plan)]},
        {"name": f"{name} alerts", "rules": alerts(plan, names)},
    ]
    return dump({"groups": groups})


def bounds(plan: Plan) -> tuple[float, float]:
    """Acceptance lengths below and above which something is wrong."""
    known = plan.expectation
    least = max(LOW * known.acceptance_length, COLLAPSED) if known else UNKNOWN_LOW
    highest = known.highest if known and known.highest else None
    most = WHOLE * plan.block_size
    return round(least, 2), round(min(most, TOO_GOOD * highest) if highest else most, 2)


def on_record(plan: Plan) -> list[dict[str, Any]]:
    """The evidence as series, to be drawn beside what is measured."""
    known = plan.expectation
    seen = {"lowest": known.acceptance_length, "highest": known.highest} if known else {}
    return [
        {
            "record": "dflash:acceptance_length_on_record",
            "expr": f"vector({value})",
            "labels": {"engine": plan.engine, "model_name": plan.served_names[0], "bound": bound},
        }
        for bound, value in seen.items()
        if value is not None
    ]


def alerts(plan: Plan, names: MetricNames) -> list[dict[str, Any]]:
    """Each says what to look at; `engine` and `model_name` tell plans apart."""
    labels = {"engine": plan.engine, "model_name": plan.served_names[0]}
    return [
        {
            "alert": f"DFlash{alert.name}",
            "expr": alert.expr,
            "for": f"{alert.minutes}m",
            "labels": {"severity": alert.severity, **labels},
            "annotations": {
                "summary": "{{ $labels.model_name }} on {{ $labels.engine }}: " + alert.summary,
                "description": alert.description,
            },
        }
        for alert in (
            *_about_speculation(plan),
            *_about_load(plan, names),
            _about_targets(plan, names),
        )
    ]


def _about_speculation(plan: Plan) -> Iterator[Alert]:
    least, most = bounds(plan)
    length, again = _of(plan, "acceptance_length"), _again(plan)
    yields = "a draft-verify cycle yields {{ $value | printf `%.2f` }} tokens"
    yield Alert(
        "AcceptanceLow", f"{length} < {least}", 15, f"{yields}, less than {least}",
        f"compare release, revisions and thinking mode with: {again} --why",
    )  # fmt: skip
    yield Alert(
        "AcceptanceSuspicious", f"{length} > {most}", 15, f"{yields}, more than {most}",
        "answers that repeat themselves are easy to draft: read a few of them",
    )  # fmt: skip
    busy = f"{_of(plan, 'output_tokens_per_second')} > {BUSY:g}"
    yield Alert(
        "SpeculationInactive", f"({busy}) unless on ({KEYS}) {length}", 15,
        "tokens are generated, and no draft is counted",
        f"the server runs without its draft; how it is meant to start: {again}",
    )  # fmt: skip


def _about_load(plan: Plan, names: MetricNames) -> Iterator[Alert]:
    more = 2 * plan.concurrency
    yield Alert(
        "Queue", f"{_of(plan, 'requests_waiting')} > {plan.concurrency}", 5,
        "{{ $value }} requests wait, more than run at once",
        f"more replicas, or: {_again(plan)} --concurrency {more}",
    )  # fmt: skip
    late = _of(plan, "ttft_seconds", quantile="0.95")
    yield Alert(
        "FirstTokenLate", f"{late} > {FIRST_TOKEN:g}", 10,
        "one request in twenty waits {{ $value | printf `%.1f` }} s for its first token",
        "long prompts, or a queue: look at the requests that wait",
    )  # fmt: skip
    if "kv_usage" in names:
        yield Alert(
            "CacheFull", f"{_of(plan, 'kv_usage')} > {FULL}", 10,
            "{{ $value | humanizePercentage }} of the KV cache is in use",
            f"fewer requests or shorter contexts: dflash show {_typed(plan)} --memory",
        )  # fmt: skip


def _about_targets(plan: Plan, names: MetricNames) -> Alert:
    """A target that was seen with this model today and is not now; or none at all."""
    running = Names(names, plan.served_names[0]).series("running")
    seen = f"max by (job, instance) (max_over_time({running}[1d]))"
    gone = f"up == 0 and on (job, instance) {seen}"
    which = "{{ with $labels.instance }}{{ . }} does not answer"
    return Alert(
        "Down", f"({gone}) or (absent({running}) unless on () ({gone}))", 5,
        which + "{{ else }}no server of it is seen{{ end }}",
        "dflash ps and dflash logs on its machine; the scrape job of Prometheus",
        "critical",
    )  # fmt: skip


def _again(plan: Plan) -> str:
    return f"dflash plan {_typed(plan)} --engine {plan.engine}"


def _typed(plan: Plan) -> str:
    return shlex.quote(plan.served_names[-1])


def _of(plan: Plan, name: str, **labels: str) -> str:
    wanted = {"model_name": plan.served_names[0], "engine": plan.engine, **labels}
    return f"dflash:{name}{{{', '.join(f'{k}={quoted(v)}' for k, v in wanted.items())}}}"
