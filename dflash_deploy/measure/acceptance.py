"""Does the draft work here? A few real requests, and what the engine counted over them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_deploy.measure.client import PATH, request_body
from dflash_deploy.measure.connection import connect, refusal, unreachable
from dflash_deploy.measure.metrics import SpeculationCounters, last_length, read, read_counters
from dflash_deploy.plan import Endpoint
from dflash_deploy.schema import Thinking

if TYPE_CHECKING:
    import httpx

# written for this project: a sum, code, a list and an explanation, for drafts differ by task
PROMPTS = (
    "A baker sells 14 loaves in the morning and twice as many after noon. How many in all?",
    "Write a Python function that returns the n-th Fibonacci number without recursion.",
    "Name the planets of the solar system in order, with one fact about each.",
    "Explain to a child in a few sentences why the sky is blue and sunsets are red.",
)
MAX_TOKENS = 64
READ_TIMEOUT = 120.0


class Acceptance(msgspec.Struct, frozen=True):
    """What was measured over the requests of one check."""

    length: float | None
    """Tokens a draft-verify cycle yields, bonus included; None: it could not be seen."""
    drafts: int | None
    """Draft-verify cycles counted; None where only a gauge was there."""
    tokens: int
    """Tokens answered."""
    method: str
    """How it was measured, in words."""


def check(
    endpoint: Endpoint,
    *,
    thinking: Thinking | None = None,
    thinking_key: str | None = None,
    prompts: Sequence[str] = PROMPTS,
    max_tokens: int = MAX_TOKENS,
) -> Acceptance:
    """Send the prompts at temperature 0, in the thinking mode given, and compare counters.

    Raises LaunchError or UsageError where the server does not answer them.
    """
    kwargs = {thinking_key: thinking == "on"} if thinking_key and thinking else {}
    if endpoint.engine == "sglang":
        return _check_sglang(endpoint, kwargs, prompts, max_tokens)
    before = read_counters(endpoint)
    answers = _ask(endpoint, kwargs, prompts, max_tokens, {})
    tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
    if before is None:
        return Acceptance(None, None, tokens, "the server publishes no speculation counters")
    counted = _counted_since(endpoint, before)
    if counted is None:
        return Acceptance(None, None, tokens, "its counters fell meanwhile: another server answers")
    return Acceptance(
        counted.acceptance_length,
        round(counted.drafts),
        tokens,
        f"the server's counters over {len(prompts)} requests",
    )


def _counted_since(endpoint: Endpoint, before: SpeculationCounters) -> SpeculationCounters | None:
    """Counters may lag behind the answers by a logging step: ask twice."""
    after = read_counters(endpoint) or before
    if after.drafts == before.drafts:
        time.sleep(1)
        after = read_counters(endpoint) or before
    return after.since(before)


def _check_sglang(
    endpoint: Endpoint, kwargs: dict[str, bool], prompts: Sequence[str], max_tokens: int
) -> Acceptance:
    # per request from 0.5.13; earlier releases ignore the field
    answers = _ask(endpoint, kwargs, prompts, max_tokens, {"return_meta_info": True})
    tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
    metas = [answer["choices"][0].get("meta_info") for answer in answers]
    if all(metas):
        drafts = sum(meta.get("spec_verify_ct") or 0 for meta in metas)
        counted = sum(meta.get("completion_tokens") or 0 for meta in metas) or tokens
        length = counted / drafts if drafts else None
        method = f"the server's report on each of {len(prompts)} requests"
        return Acceptance(length, drafts, tokens, method)
    found = read(endpoint)
    gauge = last_length(found) if found else None
    if gauge is None:
        return Acceptance(None, None, tokens, "the server publishes no speculation metrics")
    length = gauge or None
    method = "the server's gauge of its last logging interval, not these requests alone"
    return Acceptance(length, None if length else 0, tokens, method)


def _ask(
    endpoint: Endpoint,
    kwargs: dict[str, bool],
    prompts: Sequence[str],
    max_tokens: int,
    extra: dict[str, object],
) -> list[dict[str, Any]]:
    import httpx

    try:
        with connect(endpoint, read_timeout=READ_TIMEOUT) as client:
            return [
                _answer(
                    endpoint,
                    client,
                    request_body(
                        endpoint,
                        [{"role": "user", "content": prompt}],
                        max_tokens=max_tokens,
                        temperature=0,
                        template_kwargs=kwargs,
                        extra=extra,
                    ),
                )
                for prompt in prompts
            ]
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error


def _answer(endpoint: Endpoint, client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(PATH, json=body)
    if answer.status_code != 200:
        raise refusal(endpoint, answer)
    document: dict[str, Any] = answer.json()
    return document
