"""Values that are of the right type, and that an engine refuses all the same."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from dflash_deploy.registry import load
from dflash_deploy.rules import findings
from dflash_deploy.situation import Situation

REGISTRY = load(user=False)


def rules(engine: str, model: str, **given: Any) -> set[str]:
    at = Situation(
        engine=REGISTRY.engines[engine], draft=None, target=REGISTRY.find(model).target,
        version=Version({"vllm": "0.33.0", "sglang": "0.5.23"}[engine]), **given,
    )  # fmt: skip
    return {item.rule for item in findings(at)}


@pytest.mark.parametrize(
    ("rule", "model", "wrong", "right"),
    [
        ("kv-dtype-of-others", "qwen3-8b", {"kv_dtype": "turboquant_k8v4"}, {"kv_dtype": "int8_per_token_head"}),
        ("kv-dtype-of-others", "qwen3-8b", {"kv_dtype": "fp8_inc"}, {"kv_dtype": "fp8_inc", "draft_kv_dtype": "auto"}),
        ("kv-dtype-float16", "qwen3-8b", {"kv_dtype": "float16"}, {"kv_dtype": "float16", "--dtype": "float16"}),
        ("cache-block", "qwen3-8b", {"--block-size": "17"}, {"--block-size": "32"}),
        ("active-requests", "qwen3-8b", {"--max-num-active-seqs": "65"}, {"--max-num-active-seqs": "64"}),
        ("experts-of-none", "qwen3-8b", {"--enable-expert-parallel": ""}, {"--enable-eplb": ""}),
        ("backend-turboquant", "qwen3-8b", {"attention_backend": "TURBOQUANT"},
         {"attention_backend": "TURBOQUANT", "kv_dtype": "turboquant_k8v4"}),
        ("replayssm", "qwen3.5-27b", {"--use-replayssm": ""}, {"--replayssm-buffer-len": "16"}),
        ("mxfp4-dtype", "gpt-oss-20b", {"--dtype": "float16"}, {"--dtype": "bfloat16"}),
    ],
)  # fmt: skip
def test_vllm(rule, model, wrong, right):
    for said, holds in ((wrong, True), (right, False)):
        settings = {name: (word,) if word else () for name, word in said.items()}
        found = rules("vllm", model, architecture="hopper", concurrency=64, settings=settings)
        assert (rule in found) is holds, said


@pytest.mark.parametrize(
    ("rule", "architecture", "settings", "holds"),
    [
        ("mla-of-blackwell", "hopper", {"attention_backend": ("fa3", "trtllm_mla")}, True),
        ("mla-of-blackwell", "blackwell", {"attention_backend": ("trtllm_mla",)}, False),
        ("fp8-e5m2-hopper", "hopper", {"kv_dtype": ("fp8_e5m2",)}, True),
        ("fp8-e5m2-hopper", "hopper", {"kv_dtype": ("fp8_e4m3",)}, False),
        ("fp8-e5m2-hopper", "ampere", {"kv_dtype": ("fp8_e5m2",)}, False),
    ],
)
def test_sglang(rule, architecture, settings, holds):
    found = rules("sglang", "qwen3-8b", architecture=architecture, settings=settings)
    assert (rule in found) is holds


def test_experts_are_shared_out_where_there_are_some():
    said = {"--enable-expert-parallel": ()}
    assert "experts-of-none" not in rules("vllm", "qwen3-coder-30b-a3b", settings=said)
