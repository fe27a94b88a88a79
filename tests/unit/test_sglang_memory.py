"""The fit estimate of SGLang against numbers worked out by hand and one that was published."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.memory import GIB, Demand
from dflash_deploy.registry import load
from dflash_deploy.sglang_cache import pools
from dflash_deploy.sglang_memory import fit, prefill_chunk, reserve, static_fraction

TOLD = (Path(__file__).parents[2] / "docs/memory.md").read_text()
REGISTRY = load(user=False)
H100, H200 = 79.1, 139.8
DEMAND = Demand(context=32768, concurrency=48, block_size=16, batched_tokens=8192,
                memory_fraction=0.75, prefix_caching=True)  # fmt: skip
STATE = 153_944_064  # Qwen3.5-27B: 48 layers x (48 x 128 x 128 x 4 + 10240 x 3 x 2) bytes


def estimate(name: str, demand: Demand = DEMAND, card: float = H100, gib: float | None = None):
    entry = REGISTRY.find(name)
    weights = entry.target.weights[0]
    weights = msgspec.structs.replace(weights, gib=gib) if gib else weights
    return fit(entry.target, weights, entry.model.drafts[0], card, demand)


def price(name: str, ranks: int = 1):
    entry = REGISTRY.find(name)
    return pools(entry.target.layers, entry.model.drafts[0].layers, ranks=ranks, element=2)


def test_a_dense_target_and_its_draft_pay_one_price_a_token() -> None:
    assert price("qwen3-8b").token == (36 + 5) * 2 * 8 * 128 * 2 == 167_936
    found = estimate("qwen3-8b")
    # 79.1 x 0.75 - (15.26 + 1.95) - 0.5 x 0.75
    assert found.budget == pytest.approx(59.325)
    assert found.cache == pytest.approx(41.74)
    assert found.request == pytest.approx(32768 * 167_936 / GIB)  # 5.125 GiB
    assert found.requests == pytest.approx(8.144, abs=0.001)
    parts = found.target + found.draft + found.passes + found.cache
    assert parts == pytest.approx(found.budget)


def test_ranks_divide_heads_to_one_at_least() -> None:
    assert price("qwen3-8b", ranks=8).token == (36 + 5) * 2 * 1 * 128 * 2
    assert price("qwen3-8b", ranks=16).token == price("qwen3-8b", ranks=8).token


def test_sliding_layers_of_the_target_hold_four_fifths_of_the_tokens() -> None:
    # 12 full and 12 sliding layers, 8 of the draft, 8 heads of 64
    token = 2 * 8 * 64 * 2
    assert price("gpt-oss-20b").token == pytest.approx((12 + 0.8 * 12 + 8) * token)
    found = estimate("gpt-oss-20b", replace(DEMAND, context=131072, block_size=8))
    # 79.1 x 0.75 - (13.03 + 1.46) - 0.375 = 44.46 GiB, 787,494 tokens
    assert found.requests == pytest.approx(787_494 / 131_072, rel=1e-4)


def test_contexts_within_the_window_are_bound_by_the_sliding_pool() -> None:
    found = price("gpt-oss-20b").requests(GIB, 64, 48, block=8, prefixes=True)
    assert found == pytest.approx(0.8 * GIB / price("gpt-oss-20b").token / 64)


def test_sliding_layers_of_the_draft_hold_every_token() -> None:
    assert price("qwen3.5-27b").token == 16 * 2 * 4 * 256 * 2 + 6 * 2 * 8 * 128 * 2


def test_states_are_reserved_before_tokens() -> None:
    hand = price("qwen3.5-27b")
    room = 40 * GIB
    # with prefixes: floor((40 x 9/19 - 17 s) / (4.2 s)) = 27 slots, 5 requests
    # 28 + 6 x 16 states of 0.14337 GiB leave 22.22 GiB
    tokens = (room - (28 + 6 * 16) * STATE) / hand.token
    long = hand.requests(room, 131_072, 48, block=16, prefixes=True)
    assert long == pytest.approx(tokens / 131_072)
    assert hand.requests(room, 1024, 48, block=16, prefixes=True) == 5
    # one running request verifies 2 x 16 states, whatever the slots allow
    one = hand.requests(room, 131_072, 1, block=16, prefixes=True)
    assert one == pytest.approx((room - (28 + 2 * 16) * STATE) / hand.token / 131_072)


def test_without_prefixes_every_request_that_may_run_has_its_states() -> None:
    hand = price("qwen3.5-27b")
    assert hand.requests(40 * GIB, 1024, 4, block=16, prefixes=False) == 4
    # 48 requests: 49 + 49 x 16 states are 119 GiB
    assert hand.requests(40 * GIB, 1024, 48, block=16, prefixes=False) == 0


def test_a_slot_of_states_is_near_the_buffer_of_2_25_gib() -> None:
    buffer = 16 * 48 * 48 * 128 * 128 * 4 / GIB
    assert buffer == 2.25
    assert 16 * price("qwen3.5-27b").state / GIB == pytest.approx(buffer, rel=0.02)
    assert price("qwen3.5-27b", ranks=2).state == STATE / 2


def test_a_hybrid_target_of_52_gib_does_not_start_on_80_and_does_on_two() -> None:
    demand = replace(DEMAND, concurrency=8)
    assert not estimate("qwen3.5-27b", demand).fits
    assert estimate("qwen3.5-27b", replace(demand, ranks=2)).fits
    assert estimate("qwen3.5-27b", demand, H200).fits


def test_a_latent_is_on_every_rank_whole() -> None:
    assert price("kimi-k2.5", ranks=8).token == 61 * 576 * 2 + 6 * 2 * 1 * 128 * 2 == 73_344
    demand = replace(DEMAND, context=262_144, block_size=8, ranks=8, memory_fraction=0.85)
    found = estimate("kimi-k2.5", demand, H200)
    # 139.8 x 0.85 - (554.3 + 6.48) / 8 - (2.5 x 0.85 + 0.1)
    assert found.cache == pytest.approx(46.5075)
    assert found.requests == pytest.approx(46.5075 * GIB / 73_344 / 262_144)  # 2.60
    assert not estimate("kimi-k2.5", demand, H100).fits  # 554 GiB and 8 x 79


def test_tokens_of_a_published_run_on_an_h200() -> None:
    """sgl-project/sglang#40665: 450,060 tokens, 27.5 GiB of the target and 8.6 of the draft."""
    demand = replace(DEMAND, context=262_144, concurrency=8, block_size=8, memory_fraction=0.8)
    # its weights are of the size of Qwen3.5-27B's
    tokens = estimate("qwen3.8-27b", demand, H200, gib=51.75).requests * 262_144
    assert tokens == pytest.approx(450_060, rel=0.02)
    assert tokens * 16 * 4096 / GIB == pytest.approx(27.5, rel=0.02)
    assert tokens * 5 * 4096 / GIB == pytest.approx(8.6, rel=0.02)
    assert f"| 450,060 | {tokens:,.0f} | {tokens / 450_060 - 1:+.1%} |" in TOLD


def test_the_share_sglang_takes_when_none_is_given() -> None:
    dense = REGISTRY.find("qwen3-8b").target
    # 512 + 1.5 x 8192 + 128 + 2 x 48 + 58 graphs x 8 MiB
    assert reserve(dense, H100, DEMAND) * 1024 == 13_488
    assert static_fraction(dense, H100, DEMAND) == 0.833
    # an MLA target takes 1.5 GiB for prefill graphs; one that sees images has a twentieth less
    kimi = REGISTRY.find("kimi-k2.5").target
    eight = replace(DEMAND, ranks=8)
    assert reserve(kimi, H200, eight) * 1024 == 512 + 12_288 + 1024 + 96 + 1536
    assert static_fraction(kimi, H200, eight) == pytest.approx(0.892 * 0.95)
    # no card over 60 GiB has less than 10 GiB free
    assert reserve(dense, H100, replace(DEMAND, batched_tokens=2048)) == 10
    assert reserve(dense, 23.6, replace(DEMAND, batched_tokens=4096)) < 10


@pytest.mark.parametrize(
    ("card", "chunk"),
    [(15.7, 2048), (23.6, 4096), (47.4, 4096), (79.1, 8192), (139.8, 8192), (178.4, 16384)],
)
def test_chunks_grow_with_the_card(card: float, chunk: int) -> None:
    assert prefill_chunk(card) == chunk


def test_an_unknown_size_is_no_estimate() -> None:
    entry = REGISTRY.find("qwen3-8b")
    unknown = msgspec.structs.replace(entry.target.weights[0], gib=None)
    assert fit(entry.target, unknown, entry.model.drafts[0], H100, DEMAND) is None
    blind = [msgspec.structs.replace(run, kv_heads=None) for run in entry.target.layers]
    assert pools(blind, entry.model.drafts[0].layers, ranks=1, element=2) is None


def test_what_sglang_itself_reported_on_an_h200() -> None:
    """0.5.17, Qwen3-8B of configuration alone: docs/evidence."""
    path = Path(__file__).parents[2] / "docs/evidence/2026-11-28-h200-sglang-0.5.17-fit.json"
    (run,) = json.loads(path.read_text())["runs"]
    demand = replace(DEMAND, context=run["context"], concurrency=run["requests"],
                     block_size=run["block_size"], memory_fraction=run["memory_fraction"])  # fmt: skip
    found = estimate("qwen3-8b", demand, H200)
    seen = run["target_cache_gib"] + run["draft_cache_gib"]
    assert found.target + found.draft == pytest.approx(
        run["weights_gib"] + run["draft_gib"], rel=0.01
    )
    assert found.cache == pytest.approx(seen, rel=0.01)
    tokens = found.requests * run["context"]
    assert tokens == pytest.approx(run["tokens"], rel=0.01)
    assert f"| {run['tokens']:,} | {tokens:,.0f} | {tokens / run['tokens'] - 1:+.1%} |" in TOLD
