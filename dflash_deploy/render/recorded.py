"""Recording rules: one name for each quantity, whatever the engine and release call it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dflash_deploy.engine_schema import Meaning
from dflash_deploy.metric_names import MetricNames

WINDOW = "5m"
KEYS = "job, instance, model_name"
"""What a server is told apart by; ranks of one are taken together."""
QUANTILES = (0.5, 0.95)
_Rule = tuple[str, str, dict[str, str]]
"""What follows `dflash:` in its name, its expression, and labels of its own."""


@dataclass(frozen=True)
class Names:
    """The engine's names as PromQL, for one served model."""

    known: MetricNames
    model: str

    def series(self, meaning: Meaning, part: str = "") -> str:
        """The series of a quantity; `part` of a histogram: `_bucket`."""
        metric = self.known[meaning]
        wanted = {"model_name": self.model}
        if metric.label:
            wanted[metric.label.name] = metric.label.value
        return f"{metric.name}{part}{{{', '.join(f'{k}={quoted(v)}' for k, v in wanted.items())}}}"

    def rate(self, meaning: Meaning, part: str = "") -> str:
        return f"rate({self.series(meaning, part)}[{WINDOW}])"

    def summed(self, meaning: Meaning) -> str:
        return f"sum by ({KEYS}) ({self.rate(meaning)})"


def quoted(value: str) -> str:
    """A PromQL string."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def recorded(names: Names, engine: str) -> list[dict[str, Any]]:
    """The rules for what this release counts."""
    rules = [*_speculation(names), *_load(names), *_latency(names)]
    return [
        {"record": f"dflash:{name}", "expr": expr, "labels": {"engine": engine, **labels}}
        for name, expr, labels in rules
    ]


def _speculation(names: Names) -> Iterator[_Rule]:
    if length := _acceptance_length(names):
        yield "acceptance_length", length, {}
    if names.known.keys() >= {"accepted_per_position", "drafts"}:
        taken = f"sum by ({KEYS}, position) ({names.rate('accepted_per_position')})"
        share = f"{taken} / on ({KEYS}) group_left () ({names.summed('drafts')} > 0)"
        yield "acceptance_by_position", share, {}


def _acceptance_length(names: Names) -> str | None:
    """By counters where there are any; a gauge stands in while requests run."""
    ways = []
    if names.known.keys() >= {"drafts", "accepted_tokens"}:
        ways.append(f"1 + {names.summed('accepted_tokens')} / ({names.summed('drafts')} > 0)")
    elif names.known.keys() >= {"drafts", "verified_tokens"}:
        ways.append(f"{names.summed('verified_tokens')} / ({names.summed('drafts')} > 0)")
    if "acceptance_length" in names.known:
        gauge = f"avg by ({KEYS}) ({names.series('acceptance_length')} > 0)"
        ways.append(f"({gauge} and sum by ({KEYS}) ({names.series('running')}) > 0)")
    return " or ".join(ways) or None


def _load(names: Names) -> Iterator[_Rule]:
    if "generated_tokens" in names.known:
        yield "output_tokens_per_second", names.summed("generated_tokens"), {}
    for meaning, name, taken in (
        ("running", "requests_running", "sum"),
        ("waiting", "requests_waiting", "sum"),
        ("kv_usage", "kv_usage", "max"),
    ):
        if meaning in names.known:
            yield name, f"{taken} by ({KEYS}) ({names.series(meaning)})", {}


def _latency(names: Names) -> Iterator[_Rule]:
    for meaning, name in (("ttft", "ttft_seconds"), ("tpot", "tpot_seconds")):
        if meaning not in names.known:
            continue
        buckets = f"sum by ({KEYS}, le) ({names.rate(meaning, '_bucket')})"
        for quantile in QUANTILES:
            yield name, f"histogram_quantile({quantile}, {buckets})", {"quantile": str(quantile)}
