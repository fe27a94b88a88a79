"""Words that name kernels of another platform, where an option lists its words."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.registry import load
from dflash_deploy.rules import findings
from dflash_deploy.situation import Situation, settings_of

REGISTRY = load(user=False)
NEWEST = {"vllm": Version("0.33.0"), "sglang": Version("0.5.23")}


def refused(name: str, *words: str) -> list[str]:
    engine, version = REGISTRY.engines[name], NEWEST[name]
    settings = settings_of(name, engine, version, words)
    at = Situation(engine=engine, version=version, target=None, draft=None, settings=settings)
    return [item.message for item in findings(at) if item.rule.startswith("foreign-to")]


@pytest.mark.parametrize(
    ("engine", "words", "platform"),
    [
        ("vllm", ("--moe-backend", "aiter"), "AMD cards"),
        ("vllm", ("--kernel-config.moe_backend", "aiter"), "AMD cards"),
        ("vllm", ("--mm-encoder-attn-backend", "rocm_aiter_fa"), "AMD cards"),
        ("vllm", ("--linear-backend", "xpu"), "Intel cards"),
        ("vllm", ("--all2all-backend", "mori_low_latency"), "AMD cards"),
        ("sglang", ("--moe-runner-backend", "aiter"), "AMD cards"),
        ("sglang", ("--sampling-backend", "ascend"), "Ascend cards"),
        ("sglang", ("--quantization", "mlx_q4"), "Apple's hardware"),
    ],
)
def test_kernels_that_no_cuda_card_runs(engine, words, platform) -> None:
    assert any(f"is for {platform}, and plans" in message for message in refused(engine, *words))


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", ("--moe-backend", "triton")),
        ("vllm", ("--all2all-backend", "deepep_high_throughput")),
        ("vllm", ("--mm-processor-device", "cpu")),
        ("vllm", ("--chat-template", "/srv/aiter.jinja")),
        ("sglang", ("--mm-feature-transport", "cpu")),
        ("sglang", ("--weight-version", "ascend")),
    ],
)
def test_what_only_looks_like_it(engine, words) -> None:
    assert refused(engine, *words) == []
