"""What the shipped rules of vLLM say of the draft's settings, of watermarks and of whole prompts."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.registry import Registry, load
from dflash_deploy.schema import Layers
from tests.unit.test_rules import DRAFT, HYBRID, TARGET, changed, ids, situation

SC = "--speculative-config."
ADAPTIVE = {f"{SC}enable_adaptive_verification": ("true",)}
MARK = "--watermark-config"
WHOLE = {"--no-enable-chunked-prefill": ()}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load(user=False)


def refused(registry: Registry, version: str = "0.33.0", **given) -> set[str]:
    return ids(situation(registry, version=version, **given), "refuse")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({}, False),
        ({"rejection_sample_method": "standard"}, False),
        ({"rejection_sample_method": "synthetic"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "3.5"}, False),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "16"}, False),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "17"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "0.5"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "nan"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "much"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": str([0.5] * 15)}, False),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": "[0.5]"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": str([0.1] * 14 + [0.2])}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": str([1.5] * 15)}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": "half"}, True),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": "3",
          "synthetic_acceptance_rates": str([0.5] * 15)}, True),
        ({"synthetic_acceptance_length": "3"}, True),
    ],
)  # fmt: skip
def test_synthetic_acceptance_says_how_much(registry, said, wrong) -> None:
    settings = {SC + key: (word,) for key, word in said.items()}
    assert ("synthetic-acceptance" in refused(registry, settings=settings)) == wrong


@pytest.mark.parametrize(
    ("version", "method", "rule"),
    [
        ("0.33.0", "nope", "rejection-method"),
        ("0.24.0", "block", "rejection-method-block"),
        ("0.25.1", "block", None),
        ("0.32.0", "fly", "rejection-method-fly"),
        ("0.33.0", "fly", None),
    ],
)
def test_ways_of_accepting_by_release(registry, version, method, rule) -> None:
    settings = {f"{SC}rejection_sample_method": (method,)}
    found = refused(registry, version, settings=settings)
    assert {each for each in found if each.startswith("rejection")} == ({rule} if rule else set())


@pytest.mark.parametrize(
    ("context", "said", "wrong"),
    [(8192, "8193", True), (8192, "8k", False), (None, "40960", False), (None, "40961", True)],
)
def test_a_drafts_length_is_within_its_config(registry, context, said, wrong) -> None:
    at = {"draft": changed(context=context), "settings": {f"{SC}max_model_len": (said,)}}
    assert ("draft-length" in refused(registry, **at)) == wrong


def test_a_quantized_head_is_for_other_methods(registry) -> None:
    settings = {f"{SC}draft_lm_head_quantization": ("fp8",)}
    assert "draft-head-quantization" in refused(registry, settings=settings)


@pytest.mark.parametrize(
    ("further", "rule"),
    [
        ({"--enable-lora": ()}, "adaptive-lora"),
        ({"--enforce-eager": ()}, "adaptive-eager"),
        ({f"{SC}use_local_argmax_reduction": ("true",)}, "adaptive-argmax"),
        ({"pipeline_parallel": ("2",)}, "adaptive-pipeline"),
    ],
)
def test_what_adaptive_verification_does_not_go_with(registry, further, rule) -> None:
    assert rule in refused(registry, settings=ADAPTIVE | further)
    off = dict.fromkeys(ADAPTIVE, ("false",))
    assert rule not in refused(registry, settings=off | further)
    assert refused(registry, settings=ADAPTIVE) == set()


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({f"{MARK}.algorithm": "dual_key_gumbel", f"{SC}draft_sample_method": "probabilistic"}, False),
        ({f"{MARK}.allow_target_only_watermarking": "true", f"{SC}draft_sample_method": "probabilistic"}, False),
        ({f"{SC}draft_sample_method": "probabilistic"}, True),
        ({f"{MARK}.algorithm": "dual_key_gumbel"}, True),
        ({f"{MARK}.algorithm": "dual_key_gumbel", f"{SC}draft_sample_method": "greedy"}, True),
        ({f"{MARK}.algorithm": "dual_key_gumbel", f"{SC}draft_sample_method": "probabilistic",
          f"{SC}rejection_sample_method": "block"}, True),
    ],
)  # fmt: skip
def test_a_watermark_beside_a_draft(registry, said, wrong) -> None:
    settings = {MARK: ("{}",)} | {name: (word,) for name, word in said.items()}
    assert ("watermark-draft" in refused(registry, settings=settings)) == wrong
    assert "watermark-early" in refused(registry, "0.32.0", settings=settings)
    second = changed(kind="dflash2")
    assert "watermark-candidates" in refused(registry, draft=second, settings=settings)


def test_no_watermark_asks_for_nothing(registry) -> None:
    settings = {f"{SC}draft_sample_method": ("greedy",)}
    assert "watermark-draft" not in refused(registry, settings=settings)


@pytest.mark.parametrize(
    ("context", "budget", "wrong"), [(32768, "9088", True), (32768, "32768", False), (None, "1", False)]
)  # fmt: skip
def test_whole_prompts_fit_in_the_budget(registry, context, budget, wrong) -> None:
    settings = WHOLE | {"batched_tokens": (budget,)}
    assert ("whole-prompts" in refused(registry, context=context, settings=settings)) == wrong
    chunked = {"batched_tokens": (budget,)}
    assert "whole-prompts" not in refused(registry, context=context, settings=chunked)


def test_prefix_caching_of_a_hybrid_target_needs_chunks(registry) -> None:
    assert "whole-prompts-hybrid" in refused(registry, target=HYBRID, settings=WHOLE)
    without = WHOLE | {"no_prefix_caching": ()}
    assert "whole-prompts-hybrid" not in refused(registry, target=HYBRID, settings=without)
    assert "whole-prompts-hybrid" not in refused(registry, target=TARGET, settings=WHOLE)


def heads(count: int, kv: int) -> Layers:
    return Layers(kind="full", count=36, heads=count, kv_heads=kv, head_dim=128)


LATENT = Layers(kind="mla", count=61, latent_dim=576)


@pytest.mark.parametrize(
    ("layers", "ranks", "shares", "wrong"),
    [
        ([heads(32, 8)], 8, "1", False),
        ([heads(32, 8)], 8, "2", True),
        ([heads(32, 8)], 16, "2", False),
        ([heads(32, 8)], 16, "4", True),
        ([heads(32, 4)], 8, "2", False),
        ([heads(24, 8)], 16, "2", True),  # three query heads to a KV head
        ([LATENT], 8, "2", False),
        ([LATENT], 8, "3", True),
        ([], 8, "2", False),  # not known
    ],
)
def test_shares_of_a_context(registry, layers, ranks, shares, wrong) -> None:
    target = msgspec.structs.replace(TARGET, layers=layers)
    at = {"target": target, "draft": changed(DRAFT), "tensor_parallel": ranks}
    found = refused(registry, settings={"decode_context_parallel": (shares,)}, **at)
    assert ("context-parallel-ranks" in found) == wrong
