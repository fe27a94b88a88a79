"""Attention backends by target, card and release: the engines' own selectors were asked for each."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.registry import load
from dflash_deploy.rules import findings
from dflash_deploy.situation import Situation

REGISTRY = load(user=False)
NEWEST = {"vllm": "0.33.0", "sglang": "0.5.23"}


def refused(
    engine: str, model: str, card: str | None, version: str | None = None, **said: str
) -> set[str]:
    entry = REGISTRY.find(model)
    at = Situation(
        engine=REGISTRY.engines[engine], target=entry.target, draft=entry.draft(None),
        version=Version(version or NEWEST[engine]), architecture=card,
        settings={"concurrency": ("1",)} | {name: (word,) for name, word in said.items()},
    )  # fmt: skip
    return {item.rule for item in findings(at) if item.severity == "refuse"}


@pytest.mark.parametrize(
    ("engine", "model", "card", "backend", "rule"),
    [
        ("vllm", "qwen3-8b", "hopper", "ROCM_ATTN", "backend-known"),
        ("vllm", "qwen3-8b", None, "ROCM_AITER_FA", "backend-known"),
        ("vllm", "qwen3-8b", "ampere", "CPU_ATTN", "backend-known"),
        ("vllm", "kimi-k2.5", "blackwell", "XPU_MLA_SPARSE", "backend-known"),
        ("vllm", "qwen3-8b", "hopper", "HPC_ATTN", "backend-known"),
        ("vllm", "qwen3-8b", "blackwell", "MINIMAX_M3_SPARSE", "backend-known"),
        ("vllm", "qwen3-8b", "hopper", "TRITON_FLASH_ATTN", "backend-image-masks"),
        ("vllm", "gemma-4-31b", "blackwell", "TRITON_FLASH_ATTN", "backend-of-hopper"),
        ("vllm", "kimi-k2.5", "blackwell", "FLASH_ATTN_MLA", "backend-of-hopper"),
        ("vllm", "kimi-k2.5", "hopper", "FLASHINFER_MLA", "backend-of-blackwell"),
        ("vllm", "kimi-k2.5", "blackwell-rtx", "CUTLASS_MLA", "backend-of-blackwell"),
        ("vllm", "kimi-k2.5", "ampere", "FLASHMLA", "backend-flashmla"),
        ("vllm", "kimi-k2.5", "hopper", "FLASHMLA_SPARSE", "backend-sparse"),
        ("vllm", "glm-5.3", "hopper", "FLASHINFER_MLA_SPARSE_SM120", "backend-of-rtx"),
        ("vllm", "kimi-k2.5", "blackwell", "TOKENSPEED_MLA", "backend-tokenspeed"),
        ("vllm", "qwen3-8b", "hopper", "FLASHMLA_SPARSE", "backend-of-latents"),
        ("vllm", "kimi-k2.5", "hopper", "TRITON_ATTN_DIFFKV", "backend-of-heads"),
        ("vllm", "gemma-4-31b", "ampere", "FLASH_ATTN_DIFFKV", "backend-head-size"),
        ("sglang", "qwen3-8b", "hopper", "aiter", "backend-known"),
        ("sglang", "qwen3-8b", None, "intel_xpu", "backend-known"),
        ("sglang", "gpt-oss-20b", "hopper", "ascend", "backend-known"),
        ("sglang", "qwen3-8b", "hopper", "dsa", "backend-sparse"),
        ("sglang", "qwen3-8b", "blackwell", "trtllm_mla", "backend-of-latents"),
        ("sglang", "qwen3-8b", "hopper", "flashmla", "backend-of-latents"),
        ("sglang", "kimi-k2.5", "blackwell", "trtllm_mha", "backend-of-heads"),
        ("sglang", "kimi-k2.5", "hopper", "tokenspeed_mla", "mla-of-blackwell"),
        ("sglang", "kimi-k2.5", "blackwell-rtx", "cutedsl_mla", "mla-of-data-centres"),
    ],
)
def test_a_backend_that_cannot_run_here(engine, model, card, backend, rule) -> None:
    without = refused(engine, model, card)
    assert rule not in without
    assert rule in refused(engine, model, card, attention_backend=backend) - without


@pytest.mark.parametrize(
    ("engine", "model", "card", "backend"),
    [
        ("vllm", "qwen3-8b", "hopper", "FLASH_ATTN"),
        ("vllm", "qwen3-8b", "ampere", "auto"),
        ("vllm", "gpt-oss-20b", "blackwell-rtx", "TRITON_ATTN"),
        ("vllm", "qwen3.5-27b", "hopper", "TRITON_FLASH_ATTN"),
        ("vllm", "gemma-4-31b", "blackwell", "TRITON_FLASHINFER"),
        ("vllm", "kimi-k2.5", "ampere", "TRITON_MLA"),
        ("vllm", "kimi-k2.5", "hopper", "FLASHMLA"),
        ("vllm", "kimi-k2.5", "blackwell", "CUTLASS_MLA"),
        ("sglang", "qwen3-8b", "hopper", "fa3"),
        ("sglang", "kimi-k2.5", "hopper", "flashmla"),
        ("sglang", "kimi-k2.5", "blackwell", "tokenspeed_mla"),
        ("sglang", "glm-5.3", "blackwell", "dsa"),
    ],
)
def test_a_backend_that_can(engine, model, card, backend) -> None:
    assert refused(engine, model, card, attention_backend=backend) == refused(engine, model, card)


def test_tokenspeed_reads_an_fp8_cache() -> None:
    entry = REGISTRY.find("kimi-k2.5")
    at = Situation(
        engine=REGISTRY.engines["vllm"], target=entry.target, draft=None, kv_dtype="fp8",
        version=Version("0.33.0"), settings={"attention_backend": ("tokenspeed_mla",)},
    )  # fmt: skip
    assert "backend-tokenspeed" not in {item.rule for item in findings(at)}


@pytest.mark.parametrize(
    ("version", "model", "card", "own", "rules"),
    [
        ("0.33.0", "qwen3-8b", "hopper", None, {"nvfp4-kv"}),
        ("0.33.0", "qwen3-8b", "hopper", "auto", set()),
        ("0.33.0", "gpt-oss-20b", "hopper", "auto", {"nvfp4-kv-sinks"}),
        ("0.33.0", "kimi-k2.5", "blackwell", "auto", {"nvfp4-kv-latent"}),
        ("0.31.0", "qwen3-8b", "hopper", "auto", {"nvfp4-kv-target-early"}),
        ("0.31.0", "qwen3-8b", "blackwell", "auto", set()),
        ("0.33.0", "qwen3-8b", "blackwell", "nvfp4", {"nvfp4-kv-draft"}),
    ],
)
def test_a_cache_in_nvfp4(version, model, card, own, rules) -> None:
    """The draft's pass is not causal, and no backend does that over such a cache."""
    said = {"kv_dtype": "nvfp4"} | ({"draft_kv_dtype": own} if own else {})
    found = refused("vllm", model, card, version, **said)
    assert {rule for rule in found if rule.startswith("nvfp4")} == rules


@pytest.mark.parametrize(
    ("card", "said", "refuses"),
    [
        ("hopper", {"--chunked-prefill-size": "1000", "--page-size": "64"}, True),
        ("hopper", {"--chunked-prefill-size": "1000"}, False),
        ("blackwell", {"--chunked-prefill-size": "1000"}, True),
        ("blackwell", {"--chunked-prefill-size": "1000", "attention_backend": "triton"}, False),
        ("blackwell", {"--chunked-prefill-size": "1000", "--page-size": "8"}, True),
        ("blackwell", {"--chunked-prefill-size": "1008", "--page-size": "16"}, False),
        ("blackwell", {"--chunked-prefill-size": "4160", "attention_backend": "fa4"}, True),
        ("blackwell-rtx", {"--page-size": "48"}, True),
        ("hopper", {"--page-size": "256"}, False),
        ("hopper", {"--chunked-prefill-size": "-1", "--page-size": "48"}, False),
        ("hopper", {"--page-size": "48", "--disaggregation-mode": "decode"}, False),
    ],
)
def test_sglang_prefills_whole_pages(card, said, refuses) -> None:
    assert ("prefill-pages" in refused("sglang", "qwen3-8b", card, **said)) is refuses


def test_before_0_5_23_blackwell_takes_pages_of_one_token_but_for_sinks() -> None:
    said = {"--chunked-prefill-size": "1000"}
    for model, pages in (("qwen3-8b", False), ("gpt-oss-20b", True)):
        found = refused("sglang", model, "blackwell", "0.5.22", **said)
        assert ("prefill-pages" in found) is pages


def test_recurrent_states_are_kept_at_whole_pages() -> None:
    assert "hybrid-track-interval" in refused(
        "sglang", "qwen3.5-27b", "hopper", **{"--page-size": "48"}
    )
    assert "hybrid-track-interval" not in refused("sglang", "qwen3.5-27b", "hopper")
