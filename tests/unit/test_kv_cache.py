"""The cache layout against what vLLM 0.26.0 reported on an H200 (2026-11-28, configuration only).

docs/evidence/2026-11-28-h200-vllm-0.26.0-*.json have the figures and the commands.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflash_deploy.kv_cache import BLOCK, layout
from dflash_deploy.registry import load
from dflash_deploy.schema import Layers

REGISTRY = load(user=False)
EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
SEEN = [
    run for name in ("cache", "fit")
    for run in json.loads((EVIDENCE / f"2026-11-28-h200-vllm-0.26.0-{name}.json").read_text())["runs"]
]  # fmt: skip
IDS = [f"{run['model']}-{run['draft_tokens']}{run.get('kv_dtype', '')}" for run in SEEN]


@pytest.mark.parametrize("seen", SEEN, ids=IDS)
def test_concurrency_is_what_the_engine_reports(seen) -> None:
    entry = REGISTRY.find(seen["model"])
    draft = entry.model.drafts[0].layers if seen["draft_tokens"] else []
    element = 1 if seen.get("kv_dtype") == "fp8" else 2
    drafted = seen["draft_tokens"]
    pool = layout(entry.target.layers, draft, ranks=1, element=element, drafted=drafted)
    states = 1 + seen["draft_tokens"]
    request = pool.request_bytes(seen["context"], seen["batched_tokens"], states)
    requests = seen["kv_cache_gib"] * 2**30 / request
    assert requests == pytest.approx(seen["maximum_concurrency"], rel=0.005)


@pytest.mark.parametrize("seen", SEEN[:2], ids=[run["model"] for run in SEEN[:2]])
def test_a_cache_of_one_group_counts_tokens(seen) -> None:
    entry = REGISTRY.find(seen["model"])
    pool = layout(entry.target.layers, entry.model.drafts[0].layers, ranks=1, element=2)
    tokens = seen["kv_cache_gib"] * 2**30 / pool.block_bytes * BLOCK
    assert tokens == pytest.approx(seen["tokens"], rel=0.001)


def test_ranks_share_heads_and_never_a_latent() -> None:
    kimi, qwen = REGISTRY.find("kimi-k2.5"), REGISTRY.find("qwen3-8b")
    whole = layout(kimi.target.layers, [], ranks=1, element=2).block_bytes
    assert layout(kimi.target.layers, [], ranks=8, element=2).block_bytes == whole
    one, eight, sixteen = (layout(qwen.target.layers, [], ranks=n, element=2) for n in (1, 8, 16))
    assert one.block_bytes == 8 * eight.block_bytes == 8 * sixteen.block_bytes


def test_fp8_halves_it() -> None:
    layers = REGISTRY.find("qwen3-8b").target.layers
    half, whole = (layout(layers, [], ranks=1, element=size).block_bytes for size in (1, 2))
    assert 2 * half == whole


def test_where_the_drafts_layers_end_up() -> None:
    groups = {
        name: layout(REGISTRY.find(name).target.layers, REGISTRY.find(name).model.drafts[0].layers,
                     ranks=1, element=2).draft_groups
        for name in ("qwen3-8b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-coder-next", "kimi-k2.5")
    }  # fmt: skip
    assert groups.pop("gpt-oss-20b") == 2
    assert set(groups.values()) == {1}


@pytest.mark.parametrize(
    "seen", [run for run in SEEN if "page_tokens" in run], ids=lambda run: run["model"]
)
def test_a_page_holds_a_recurrent_state_with_the_drafted_tokens(seen) -> None:
    entry = REGISTRY.find(seen["model"])
    pool = layout(entry.target.layers, entry.model.drafts[0].layers, ranks=1, element=2,
                  drafted=seen["draft_tokens"])  # fmt: skip
    assert pool.groups[0][0].tokens == seen["page_tokens"]


def test_recurrent_layers_alone_have_pages_of_their_own() -> None:
    only = [Layers(kind="linear", count=36, state_bytes=2**63 - 1)]
    pool = layout(
        only, [Layers(kind="full", count=5, kv_heads=8, head_dim=128)], ranks=1, element=2
    )
    assert pool.block_bytes > 0
