"""The fit estimate against vLLM 0.26.0's own reports on an H200 (2026-11-28)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import msgspec
import pytest

from dflash_deploy.kv_cache import layout
from dflash_deploy.memory import GIB, Demand, Fit, fit
from dflash_deploy.registry import load

REGISTRY = load(user=False)
DOCS = Path(__file__).parents[2] / "docs"
EVIDENCE = DOCS / "evidence"
TOLD = (DOCS / "memory.md").read_text()
SEEN = [
    run for name in ("cache", "fit")
    for run in json.loads((EVIDENCE / f"2026-11-28-h200-vllm-0.26.0-{name}.json").read_text())["runs"]
]  # fmt: skip
WITH_DRAFT = [run for run in SEEN if run["draft_tokens"] and run["weights_gib"]]
H200 = 139.80


def asked(run) -> Demand:
    return Demand(context=run["context"], concurrency=run.get("requests", 64),
                  block_size=run["draft_tokens"] + 1, batched_tokens=run["batched_tokens"],
                  kv_dtype=run.get("kv_dtype", "auto"),
                  first_runner="graphs_profiled_gib" in run)  # fmt: skip


def estimate(name: str, demand: Demand, card: float = H200):
    entry = REGISTRY.find(name)
    return fit(entry.target, entry.target.weights[0], entry.model.drafts[0], card, demand)


@pytest.mark.parametrize(
    "run", WITH_DRAFT, ids=[run["model"] + run.get("kv_dtype", "") for run in WITH_DRAFT]
)
def test_weights_cache_and_concurrency_are_within_five_percent(run) -> None:
    found = estimate(run["model"], asked(run))
    assert found.target + found.draft == pytest.approx(run["weights_gib"], rel=0.05)
    assert found.cache == pytest.approx(run["kv_cache_gib"], rel=0.05)
    assert found.requests == pytest.approx(run["maximum_concurrency"], rel=0.05)
    told = (found.target + found.draft, run["weights_gib"], found.cache, run["kv_cache_gib"],
            found.requests, run["maximum_concurrency"])  # fmt: skip
    assert f"| {' | '.join(f'{number:.2f}' for number in told)} |" in TOLD


SHORTER = [
    (run["model"], run["block"], run["batched_tokens"], run["kv_cache_gib"],
     run["requests_of_4096_tokens"])
    for run in json.loads((EVIDENCE / "2026-11-30-h200-vllm-0.26.0-starts.json").read_text())["runs"]
]  # fmt: skip
"""Block (1: plain), tokens a step, and vLLM's own cache and requests of 4,096 tokens."""


@pytest.mark.parametrize(("name", "block", "tokens", "cache", "requests"), SHORTER)
def test_runs_that_nothing_was_fitted_to(name, block, tokens, cache, requests) -> None:
    demand = Demand(context=4096, concurrency=64, block_size=block, batched_tokens=tokens)
    found = estimate(name, demand) if block > 1 else plain(name, demand)
    assert found.request == pytest.approx(cache / requests, rel=0.001)
    rows = ((found.cache, cache), (found.requests, requests))
    told = (
        f"{mine:.2f} | {theirs:.2f} | {round(mine / theirs - 1, 3) + 0:+.1%}"  # no -0.0%
        for mine, theirs in rows
    )
    assert f"| {' | '.join(told)} |" in TOLD
    assert found.cache == pytest.approx(cache, rel=0.05)


@pytest.mark.parametrize(
    ("name", "block", "beside", "told"),
    [
        ("qwen3.5-27b", 16, 9088, "{} GiB with blocks of 16"),
        ("qwen3.5-27b", 8, 8576, "and {} with 8 (Qwen3.5-27B"),
        ("gemma-4-31b", 16, 9088, "{} with either (Gemma"),
        ("qwen3-8b", 8, 9088, "{} with 8 (Qwen3-8B"),
    ],
)
def test_what_a_draft_cost_of_the_cache_is_told(name, block, beside, told) -> None:
    seen = {(of, size, tokens): cache for of, size, tokens, cache, _ in SHORTER}
    with_draft = next(seen[key] for key in seen if key[:2] == (name, block))
    assert told.format(f"{seen[name, 1, beside] - with_draft:.1f}") in TOLD


def plain(name: str, demand: Demand) -> Fit:
    """The estimate with what the draft takes given back."""
    target, found = REGISTRY.find(name).target, estimate(name, demand)
    request = layout(target.layers, [], ranks=1, element=2).request_bytes(
        demand.context, demand.batched_tokens, 1
    )
    return replace(found, cache=found.cache + found.draft, draft=0, request=request / GIB)


DEMAND = Demand(context=32768, concurrency=64, block_size=16, batched_tokens=9088)


def test_a_small_card_does_not_hold_it_and_two_do() -> None:
    assert not estimate("qwen3-8b", DEMAND, card=23.7).fits
    assert estimate("qwen3-8b", replace(DEMAND, ranks=2), card=23.7).fits


def test_what_makes_room() -> None:
    plain = estimate("qwen3.5-27b", DEMAND)
    assert estimate("qwen3.5-27b", replace(DEMAND, kv_dtype="fp8")).requests > plain.requests
    assert estimate("qwen3.5-27b", replace(DEMAND, context=8192)).requests > plain.requests
    assert estimate("qwen3.5-27b", replace(DEMAND, block_size=8)).requests > plain.requests
    assert estimate("qwen3.5-27b", replace(DEMAND, prefix_caching=True)).requests < plain.requests


def test_an_unknown_size_is_no_estimate() -> None:
    entry = REGISTRY.find("qwen3-8b")
    unknown = msgspec.structs.replace(entry.target.weights[0], gib=None)
    assert fit(entry.target, unknown, entry.model.drafts[0], H200, DEMAND) is None


def smallest(entry) -> float:
    """GB of all documented cards on which one request of 2,048 tokens fits, the draft included."""
    ranks = entry.target.minimum.tensor_parallel
    demand = Demand(context=2048, concurrency=1, block_size=entry.model.drafts[0].block_size,
                    batched_tokens=2048, ranks=ranks)  # fmt: skip
    low, high = 1.0, 4096.0
    while high - low > 0.05:
        half = (low + high) / 2
        held = fit(
            entry.target, entry.target.weights[0], entry.model.drafts[0], half / ranks, demand
        )
        low, high = (low, half) if held.fits else (half, high)
    return high * 2**30 / 1e9


def test_published_minimums_are_near_the_smallest_cards_that_fit() -> None:
    """Recipes say 1.2 times the weights, without a draft; gpt-oss-120b's is rounded far up."""
    ratios = {
        entry.name: smallest(entry) / entry.target.minimum.memory_gb
        for entry in REGISTRY.entries.values()
        if entry.target.minimum and entry.target.minimum.memory_gb and entry.model.drafts
        and fit(entry.target, entry.target.weights[0], entry.model.drafts[0], 1e4, DEMAND)
    }  # fmt: skip
    assert len(ratios) >= 20
    assert median(ratios.values()) == pytest.approx(1, abs=0.05)
    near = sum(0.9 <= ratio <= 1.1 for ratio in ratios.values())
    assert f"For {len(ratios)} targets" in TOLD
    assert f"for {near} of them, at the median {median(ratios.values()):.2f} of it" in TOLD
    assert {name for name, ratio in ratios.items() if not 0.9 < ratio < 1.2} == {
        "qwen3.5-4b", "gpt-oss-120b",
    }  # fmt: skip
