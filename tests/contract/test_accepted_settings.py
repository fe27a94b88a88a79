"""Settings near those that are refused, which this project plans and the engine takes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from tests.contract.engine_cases import REGISTRY, RELEASES, TIMEOUT, as_case, judge
from tests.contract.refusals import keyless

pytestmark = TIMEOUT
VLLM, _, SGLANG, _ = RELEASES
RATES = json.dumps([0.9] * 5 + [0.5] * 10)
TAKEN: dict[Any, tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...]] = {
    VLLM: (
        ("qwen3-8b", {}, ("-sc.rejection_sample_method", "synthetic", "-sc.synthetic_acceptance_length", "3.5")),
        ("qwen3-8b", {}, ("-sc.rejection_sample_method", "synthetic", "-sc.synthetic_acceptance_rates", RATES)),
        ("qwen3-8b", {}, ("-sc.rejection_sample_method", "block")),
        ("qwen3-8b", {}, ("-sc.max_model_len", "32768")),
        ("qwen3-8b", {}, ("-sc.enable_adaptive_verification", "true")),
        ("qwen3-8b", {}, ("--watermark-config", '{"key": 1, "algorithm": "dual_key_gumbel"}', "-sc.draft_sample_method", "probabilistic")),
        ("qwen3-8b", {}, ("--watermark-config", '{"key": 1, "allow_target_only_watermarking": true}', "-sc.draft_sample_method", "probabilistic")),
        ("qwen3-8b", {}, ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "32768")),
        ("qwen3.5-27b", {}, ("--no-enable-chunked-prefill", "--no-enable-prefix-caching", "--max-num-batched-tokens", "32768")),
        ("qwen3-8b", {"tensor_parallel": 16}, ("--decode-context-parallel-size", "2")),
        ("qwen3-coder-30b-a3b", {"tensor_parallel": 8}, ("--decode-context-parallel-size", "2")),
        ("kimi-k2.5", {"tensor_parallel": 8}, ("--decode-context-parallel-size", "2")),
        ("qwen3-8b", {}, ("--logits-processors", "a.module:Processor")),
        ("qwen3-8b", {}, ("--block-size", "32")),
        ("qwen3-8b", {}, ("--max-num-active-seqs", "8")),
        ("qwen3-8b", {}, ("--kv-cache-dtype", "int8_per_token_head")),
        ("qwen3-8b", {}, ("--attention-backend", "flash_attn", "--seed", " 7", "--max-num-batched-tokens", "16k")),
        ("qwen3-coder-30b-a3b", {}, ("--enable-expert-parallel",)),
    ),
    SGLANG: (
        ("qwen3-8b", {"tensor_parallel": 2}, ("--attn-cp-size", "2")),
        ("qwen3-8b", {"tensor_parallel": 2}, ("--enable-dp-attention", "--dp-size", "2")),
        ("qwen3-8b", {"tensor_parallel": 2}, ("--attn-dp-size", "2")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("release", TAKEN, ids=str)
def test_the_engine_takes_what_is_planned(release: Any) -> None:
    messages = []
    for model, options, words in TAKEN[release]:
        request = Request(
            model=model, engine=release.engine, engine_version=release.version,
            engine_args=keyless(words), trust_remote_code=True, **options,
        )  # fmt: skip
        plan = make_plan(REGISTRY, request, parse("H100:32", REGISTRY.gpus))
        keys = dict(zip(keyless(words), words, strict=True))
        told = tuple(keys.get(word, word) for word in plan.argv)
        plan = msgspec.structs.replace(plan, argv=told)
        case = as_case(" ".join([model, *words]), "H100", plan, judge_config=True)
        messages.append(case.message())
    verdicts = judge(release, messages)
    assert {name: each["message"] for name, each in verdicts.items() if not each["ok"]} == {}
    assert len(verdicts) == len(TAKEN[release])
