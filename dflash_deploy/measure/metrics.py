"""What a server says about its speculation: vLLM's counters, SGLang's gauges.

Names and meaning: vLLM 0.33.0 v1/spec_decode/metrics.py (the embedded server uses the same),
SGLang 0.5.23 srt/observability/metrics_collector.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from dflash_deploy.measure.connection import connect, refusal, unreachable
from dflash_deploy.plan import Endpoint

VLLM = "vllm:spec_decode_num_"
SGLANG = "sglang:spec_"
CACHE_HITS = {"vllm:": "prefix_cache_hits_total", "sglang:": "cached_tokens_total"}
"""The counter of prompt tokens that were found in the prefix cache, by prefix."""
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

    def since(self, earlier: SpeculationCounters) -> SpeculationCounters:
        """What was counted between the two."""
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


class SpeculationGauges(msgspec.Struct, frozen=True):
    """SGLang's view: of its last logging interval, not since the start."""

    accept_length: float
    accept_rate: float | None
    verify_calls: float | None
    """A real counter, from 0.5.13."""


def parse_counters(text: str) -> SpeculationCounters | None:
    """vLLM's exposition summed over every label; None: the server does not speculate."""
    totals: dict[str, float] = defaultdict(float)
    positions: dict[int, float] = defaultdict(float)
    for name, labels, value in _samples(text, VLLM):
        if name == "accepted_tokens_per_pos_total":
            positions[int(labels.get("position", 0))] += value
        else:
            totals[name] += value
    if "drafts_total" not in totals:
        return None
    return SpeculationCounters(
        totals["drafts_total"],
        totals["draft_tokens_total"],
        totals["accepted_tokens_total"],
        tuple(positions[place] for place in range(max(positions, default=-1) + 1)),
    )


def parse_gauges(text: str) -> SpeculationGauges | None:
    """SGLang's exposition; ranks and engines that report are averaged, idle ones (0) left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, _, value in _samples(text, SGLANG):
        found[name].append(value)
    if "accept_length" not in found:
        return None
    rates, calls = found["accept_rate"], found["verify_calls_total"]
    return SpeculationGauges(
        _mean(found["accept_length"]),
        _mean(rates) if rates else None,
        sum(calls) if calls else None,
    )


def parse_cached_tokens(text: str) -> float | None:
    """Prompt tokens taken from the prefix cache since the start; None: it is not counted."""
    found = [
        value
        for prefix, counter in CACHE_HITS.items()
        for name, _, value in _samples(text, prefix)
        if name == counter
    ]
    return sum(found) if found else None


def read_counters(endpoint: Endpoint) -> SpeculationCounters | None:
    """vLLM and the embedded server. None: metrics are off, or it does not speculate."""
    text = read_metrics(endpoint)
    return parse_counters(text) if text is not None else None


def read_gauges(endpoint: Endpoint) -> SpeculationGauges | None:
    """SGLang. None: started without --enable-metrics, or it does not speculate."""
    text = read_metrics(endpoint)
    return parse_gauges(text) if text is not None else None


def read_metrics(endpoint: Endpoint, *, timeout: float = TIMEOUT) -> str | None:
    """The exposition; None where the server has none. Raises LaunchError if nobody answers."""
    import httpx

    try:
        with connect(endpoint, read_timeout=timeout) as client:
            # both engines redirect from the mounted application's path to the one with a slash
            answer = client.get("/metrics", follow_redirects=True)
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    if answer.status_code != httpx.codes.OK:
        raise refusal(endpoint, answer.status_code, answer.content)
    return answer.text


def _samples(text: str, prefix: str) -> Iterator[tuple[str, dict[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(prefix):
                yield sample.name.removeprefix(prefix), sample.labels, sample.value


def _mean(values: list[float]) -> float:
    active = [value for value in values if value > 0]
    return sum(active) / len(active) if active else 0.0
