"""Rules as data: each condition, each check, and what the shipped rules say of known situations."""

from __future__ import annotations

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.engine_schema import Rule, RuleWhen, SettingIs, SetTo
from dflash_deploy.reach import is_range, is_version
from dflash_deploy.registry import Registry, load
from dflash_deploy.rules import findings, first_release, holds, layer_pattern
from dflash_deploy.schema import Draft, Layers, Target
from dflash_deploy.situation import Situation, flag_for


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load(user=False)


DRAFT = Draft(
    id="a/draft", kind="dflash", block_size=16, architecture="DFlashDraftModel",
    layers=[Layers(kind="full", count=5, heads=32, kv_heads=8, head_dim=128)],
    hidden_size=4096, target_layer_ids=[1, 9], mask_token_id=1, context=8192, trained_context=None,
    thinking="off", parameters=None, gib=None, licence="mit",
)  # fmt: skip
TARGET = Target(
    family="qwen3", architecture="Qwen3ForCausalLM", parameters="8B", hidden_size=4096,
    vocab_size=151936, context=40960, licence="mit", gated=False,
    layers=[Layers(kind="full", count=36, heads=32, kv_heads=8, head_dim=128)], weights=[],
    minimum=None,
)  # fmt: skip


def situation(registry: Registry, engine: str = "vllm", version: str = "0.33.0", **given):
    given = {"target": TARGET, "draft": DRAFT, "block_size": 16, "concurrency": 64} | given
    return Situation(engine=registry.engines[engine], version=Version(version), **given)


def ids(at: Situation, severity: str | None = None) -> set[str]:
    return {item.rule for item in findings(at) if severity in (None, item.severity)}


def variables(at: Situation) -> dict[str, str]:
    return {item.name: item.value for found in findings(at) for item in found.variables}


def changed(draft: Draft = DRAFT, **fields) -> Draft:
    return msgspec.structs.replace(draft, **fields)


SLIDING = [Layers(kind="sliding", count=5, heads=32, kv_heads=8, head_dim=128, window=4096)]
MIXED = [*DRAFT.layers, *SLIDING]
HYBRID = msgspec.structs.replace(
    TARGET,
    architecture="Qwen3_5ForConditionalGeneration",
    layers=[*TARGET.layers, Layers(kind="linear", count=48)],
)
GPT_OSS = msgspec.structs.replace(TARGET, architecture="GptOssForCausalLM")
GEMMA = msgspec.structs.replace(TARGET, architecture="Gemma4ForConditionalGeneration")


@pytest.mark.parametrize(
    ("when", "given", "otherwise"),
    [
        (RuleWhen(version="<0.30"), {"version": "0.28.0"}, {"version": "0.30.0"}),
        (RuleWhen(architecture=["hopper"]), {"architecture": "hopper"}, {"architecture": None}),
        (RuleWhen(targets=["GptOssForCausalLM"]), {"target": GPT_OSS}, {"target": None}),
        (RuleWhen(target_layers="linear"), {"target": HYBRID}, {}),
        (RuleWhen(draft_kind="dflash2"), {"draft": changed(kind="dflash2")}, {"draft": None}),
        (RuleWhen(draft_layers=["mixed"]), {"draft": changed(layers=MIXED)}, {"draft": changed(layers=SLIDING)}),
        (RuleWhen(draft_causal=False), {"draft": changed(causal=False)}, {"draft": changed(causal=None)}),
        (RuleWhen(draft_format="speculators"), {"draft": changed(format="speculators")}, {}),
        (RuleWhen(draft_quantized=True), {"draft": changed(quantization="w4a16")}, {}),
        (RuleWhen(kv_dtype=["fp8"]), {"kv_dtype": "fp8"}, {}),
        (RuleWhen(tensor_parallel_above=1), {"tensor_parallel": 2}, {"tensor_parallel": 1}),
        (RuleWhen(concurrency_above=64), {"concurrency": 65}, {"concurrency": None}),
        (RuleWhen(block_size_above=10), {"block_size": 16}, {"block_size": 10}),
        (RuleWhen(settings=[SettingIs(name="x")]), {"settings": {"x": ()}}, {}),
        (RuleWhen(settings=[SettingIs(name="x", absent=True)]), {}, {"settings": {"x": ()}}),
        (RuleWhen(settings=[SettingIs(name="x", one_of=["a"])]), {"settings": {"x": ("A",)}}, {"settings": {"x": ("b",)}}),
        (RuleWhen(settings=[SettingIs(name="x", none_of=["a"])]), {"settings": {"x": ("b",)}}, {"settings": {"x": ("a",)}}),
        (RuleWhen(settings=[SettingIs(name="x", above=1)]), {"settings": {"x": ("2",)}}, {"settings": {"x": ("1",)}}),
        (RuleWhen(settings=[SettingIs(name="x", above=1)]), {"settings": {"x": ("2",)}}, {"settings": {"x": ("two",)}}),
        (RuleWhen(settings=[SettingIs(name="x", mentions="yarn")]), {"settings": {"x": ('{"t": "YaRN"}',)}}, {"settings": {"x": ("{}",)}}),
    ],
)  # fmt: skip
def test_every_part_of_a_condition_holds_or_does_not(registry, when, given, otherwise):
    assert holds(when, situation(registry, **given))
    assert not holds(when, situation(registry, **otherwise))


@pytest.mark.parametrize(
    ("version", "tokens", "requests", "block", "starts"),
    [
        # a faked H100 with vLLM's own config classes said so
        ("0.26.0", 8192, 1024, 16, False),
        ("0.26.0", 32768, 1024, 16, True),
        ("0.27.1", 8192, 1024, 10, False),
        ("0.28.0", 8192, 1024, 16, True),
        ("0.28.0", 15, 4, 16, False),
        ("0.28.0", 16, 4, 16, True),
        ("0.33.0", 16, 4, 16, False),
        ("0.33.0", 17, 4, 16, True),
    ],
)
def test_the_budget_of_batched_tokens(registry, version, tokens, requests, block, starts):
    said = {"batched_tokens": (str(tokens),)}
    at = situation(registry, version=version, settings=said, concurrency=requests, block_size=block)
    assert ("batched-tokens" in ids(at)) is not starts


def test_the_budget_is_vllms_default_for_the_card_where_nothing_is_said(registry):
    bare = {"version": "0.26.0", "concurrency": None}
    assert "batched-tokens" in ids(situation(registry, architecture="hopper", **bare))
    assert "batched-tokens" in ids(situation(registry, architecture="ampere", **bare))
    fewer = {"settings": {"concurrency": ("64",)}, "architecture": "hopper"}
    assert "batched-tokens" not in ids(
        situation(registry, version="0.26.0", concurrency=None, **fewer)
    )


@pytest.mark.parametrize(
    ("engine", "version", "given", "rule"),
    [
        ("vllm", "0.21.0", {}, "wrong-layers"),
        ("vllm", "0.22.1", {}, "one-slot-short"),
        ("vllm", "0.24.0", {"draft": changed(layers=MIXED)}, "sliding-layers-ignored"),
        ("vllm", "0.25.1", {"draft": changed(layers=MIXED)}, "mixed-layers-refused"),
        ("vllm", "0.27.1", {"draft": changed(architecture="DFlash2DraftModel", kind="dflash2")}, "draft-class"),
        ("vllm", "0.33.0", {"block_size": 32}, "block-above-trained"),
        ("vllm", "0.28.0", {"settings": {"pipeline_parallel": ("2",)}}, "pipeline-parallel-none"),
        ("vllm", "0.33.0", {"settings": {"pipeline_parallel": ("2",)}, "target": GPT_OSS}, "pipeline-parallel-few"),
        ("vllm", "0.33.0", {"tensor_parallel": 3}, "draft-heads"),
        ("vllm", "0.33.0", {"settings": {"draft_attention_backend": ("nope",)}}, "draft-backend-known"),
        ("vllm", "0.23.0", {"settings": {"draft_attention_backend": ("TRITON_ATTN",)}}, "draft-backend-early"),
        ("vllm", "0.33.0", {"settings": {"draft_attention_backend": ("flash_attn",)}, "kv_dtype": "fp8", "architecture": "ampere"}, "draft-backend-fp8"),
        ("vllm", "0.33.0", {"target": GPT_OSS, "architecture": "ada", "settings": {"attention_backend": ("flash_attn",)}}, "attention-sinks"),
        ("vllm", "0.30.0", {"draft": changed(quantization="w4a16")}, "quantized-draft"),
        ("vllm", "0.33.0", {"settings": {"--enable-lora": (), "batched_tokens": ("1000",)}}, "lora-budget"),
        ("vllm", "0.33.0", {"settings": {"--structured-outputs-config": ('{"backend": "lm-format-enforcer"}',)}}, "grammar-backend"),
        ("sglang", "0.5.13.post1", {"draft": changed(layers=MIXED)}, "sliding-layers-ignored"),
        ("sglang", "0.5.17", {"draft": changed(layers=SLIDING, causal=False)}, "sliding-layers-causal"),
        ("sglang", "0.5.18", {"draft": changed(architecture="DFlash2DraftModel")}, "draft-class"),
        ("sglang", "0.5.23", {"settings": {"pipeline_parallel": ("2",)}}, "pipeline-parallel"),
        ("sglang", "0.5.19", {"settings": {"dp_attention": ()}}, "dp-attention-none"),
        ("sglang", "0.5.23", {"settings": {"attention_backend": ("trtllm_mha",)}, "architecture": "ampere"}, "trtllm-ampere"),
        ("sglang", "0.5.23", {"settings": {"attention_backend": ("fa3",)}, "architecture": "blackwell"}, "fa3-blackwell"),
        ("sglang", "0.5.23", {"settings": {"attention_backend": ("fa4",)}, "architecture": "ada"}, "fa4-card"),
        ("sglang", "0.5.17", {"settings": {"attention_backend": ("fa4",)}, "architecture": "blackwell-rtx"}, "fa4-rtx"),
        ("sglang", "0.5.22", {"settings": {"dp_attention": ()}}, "dp-attention-none"),
        ("sglang", "0.5.22", {"settings": {"--attn-dp-size": ("2",)}}, "dp-attention-size-none"),
        ("vllm", "0.30.0", {"settings": {"--logits-processors": ("a:B",)}}, "logits-processors"),
        ("sglang", "0.5.23", {"settings": {"attention_backend": ("flashinfer",)}, "target": GPT_OSS}, "attention-sinks"),
        ("sglang", "0.5.20", {"settings": {"attention_backend": ("fa4",)}, "target": GEMMA}, "gemma-backend"),
        ("sglang", "0.5.23", {"settings": {"attention_backend": ("fa3",)}, "target": GEMMA}, "gemma-backend-fa4"),
        ("sglang", "0.5.23", {"settings": {"draft_attention_backend": ("fa5",)}}, "draft-backend-known"),
        ("sglang", "0.5.23", {"settings": {"draft_window": ("8",)}}, "draft-window"),
        ("sglang", "0.5.23", {"settings": {"recurrent_state_cache": ("no_buffer",)}, "target": HYBRID}, "hybrid-no-buffer"),
        ("sglang", "0.5.23", {"draft": changed(kind="dflash2", quantization="w4a16")}, "quantized-draft"),
        ("sglang", "0.5.19", {"settings": {"--disaggregation-mode": ("decode",)}}, "disaggregation-early"),
        ("vllm", "0.32.0", {"settings": {"--kv-transfer-config": ('{"kv_connector": "MoRIIOConnector"}',)}, "target": HYBRID}, "connector-moriio-hybrid"),
        ("transformers", "0.1.0", {"target": HYBRID}, "recurrent-target"),
    ],
)  # fmt: skip
def test_what_the_engines_cannot_do_is_refused(registry, engine, version, given, rule):
    assert rule in ids(situation(registry, engine, version, **given), "refuse")


@pytest.mark.parametrize(
    ("engine", "version", "given", "rule"),
    [
        ("vllm", "0.33.0", {"target": GEMMA}, "gemma-scale"),
        ("vllm", "0.33.0", {"thinking": "on"}, "thinking"),
        ("vllm", "0.33.0", {"context": 16384}, "context-above-draft"),
        ("vllm", "0.33.0", {"settings": {"overrides": ('{"rope_type": "yarn"}',)}, "draft": changed(kind="dflash2")}, "yarn"),
        ("vllm", "0.28.0", {"target": HYBRID}, "hybrid-prefix-caching"),
        ("vllm", "0.33.0", {"settings": {"--kv-transfer-config": ('{"kv_connector": "NixlConnector"}',)}}, "connector"),
        ("vllm", "0.27.1", {"settings": {"--kv-transfer-config": ('{"kv_connector": "NixlConnector"}',)}}, "connector-early"),
        ("sglang", "0.5.20", {"settings": {"--disaggregation-mode": ("prefill",)}}, "disaggregation"),
        ("sglang", "0.5.18", {"tensor_parallel": 2}, "ranks-disagree"),
        ("sglang", "0.5.16", {}, "grammar"),
        ("sglang", "0.5.17", {"draft": changed(layers=MIXED)}, "sliding-layers-early"),
        ("sglang", "0.5.23", {}, "requests-unsaid"),
        ("sglang", "0.5.23", {"settings": {"--speculative-eagle-topk": ("1",)}}, "eagle-flags"),
    ],
)  # fmt: skip
def test_what_goes_worse_is_warned_of(registry, engine, version, given, rule):
    assert rule in ids(situation(registry, engine, version, **given), "warn")


@pytest.mark.parametrize(
    ("version", "given", "setting"),
    [
        ("0.5.22", {"architecture": "blackwell"}, SetTo(setting="draft_attention_backend", value="fa4")),
        ("0.5.13.post1", {"target": HYBRID}, SetTo(setting="recurrent_state_cache", value="extra_buffer")),
        ("0.5.17", {"target": HYBRID}, SetTo(setting="no_prefix_caching")),
        ("0.5.23", {"settings": {"dp_attention": ()}}, SetTo(setting="dp_lm_head")),
        ("0.5.23", {"draft": changed(kind="dflash2"), "architecture": "blackwell-rtx"}, SetTo(setting="no_prefill_graph")),
    ],
)  # fmt: skip
def test_what_can_be_mended_by_a_setting_is(registry, version, given, setting):
    found = findings(situation(registry, "sglang", version, **given))
    assert setting in [item for finding in found for item in finding.set]


def test_a_draft_in_several_cache_groups_needs_the_second_model_runner(registry):
    """Seen on an H200 with vLLM 0.26.0: gpt-oss-20b ended, and ran with the variable."""
    entry = registry.find("gpt-oss-20b")
    pair = {"target": entry.target, "draft": entry.model.drafts[0], "block_size": 8}
    assert (
        variables(situation(registry, version="0.26.0", **pair))["VLLM_USE_V2_MODEL_RUNNER"] == "1"
    )
    assert "draft-in-groups-early" in ids(situation(registry, version="0.25.1", **pair), "refuse")
    assert "VLLM_USE_V2_MODEL_RUNNER" not in variables(
        situation(registry, version="0.30.0", **pair)
    )


@pytest.mark.parametrize(
    ("version", "set_to"), [("0.20.0", None), ("0.21.0", "0"), ("0.33.0", "0")]
)
def test_no_start_compiles_a_sampler_that_drafting_does_not_use(registry, version, set_to):
    at = situation(registry, version=version)
    assert variables(at).get("VLLM_USE_FLASHINFER_SAMPLER") == set_to


def test_a_fix_never_overrides_what_was_said(registry):
    said = {"draft_attention_backend": ("triton",)}
    at = situation(registry, "sglang", "0.5.22", architecture="blackwell", settings=said)
    assert "blackwell-draft" not in ids(at)


@pytest.mark.parametrize(
    ("engine", "target", "draft", "first"),
    [
        ("vllm", TARGET, DRAFT, "0.23.0"),
        ("vllm", TARGET, changed(layers=MIXED), "0.26.0"),
        ("vllm", TARGET, changed(kind="dflash2", architecture="DFlash2DraftModel"), "0.28.0"),
        ("vllm", msgspec.structs.replace(TARGET, architecture="Qwen3NextForCausalLM"), DRAFT, "0.24.0"),
        ("vllm", msgspec.structs.replace(TARGET, architecture="Unheard"), DRAFT, None),
        ("sglang", TARGET, DRAFT, "0.5.11"),
        ("sglang", TARGET, changed(layers=MIXED), "0.5.14"),
        ("sglang", TARGET, changed(layers=SLIDING, causal=False), "0.5.18"),
        ("sglang", TARGET, changed(kind="dflash2", architecture="DFlash2DraftModel"), "0.5.19"),
        ("sglang", GEMMA, DRAFT, "0.5.14"),
    ],
)  # fmt: skip
def test_the_first_release_of_a_pair_follows_from_the_rules(registry, engine, target, draft, first):
    found = first_release(registry.engines[engine], target, draft)
    assert (found.version if found else None) == first


def test_the_layers_of_a_draft():
    assert layer_pattern(DRAFT) == "full"
    assert layer_pattern(changed(layers=MIXED)) == "mixed"
    assert layer_pattern(changed(layers=SLIDING)) == "sliding"
    assert layer_pattern(changed(layers=[])) is None


def all_rules(registry: Registry) -> list[tuple[str, Rule]]:
    return [(name, rule) for name, engine in registry.engines.items() for rule in engine.rules]


def test_the_shipped_rules_are_well_formed(registry):
    for name, rule in all_rules(registry):
        engine = registry.engines[name]
        where = f"{name}: {rule.id}"
        assert rule.when.version is None or is_range(rule.when.version), where
        assert rule.lifted_in is None or is_version(rule.lifted_in), where
        assert not rule.message.endswith("."), where
        assert rule.source, where
        assert (rule.severity == "fix") == bool(rule.set or rule.variables), where
        for item in rule.set:
            holding = [r.version for r in engine.releases if rule.when.version is None
                       or Version(r.version) in _range(rule.when.version)]  # fmt: skip
            inside = name == "vllm" and item.setting == "draft_attention_backend"  # its JSON
            spelled = [flag_for(engine, item.setting, Version(v)) for v in holding]
            assert inside or all(spelled), where
    for engine in registry.engines.values():
        names = [rule.id for rule in engine.rules]
        assert len(names) == len(set(names))


def _range(text: str):
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(text, prereleases=True)


def test_a_rule_that_a_release_lifts_does_not_hold_there(registry):
    for name, rule in all_rules(registry):
        if rule.lifted_in is not None and rule.when.version is not None:
            assert Version(rule.lifted_in) not in _range(rule.when.version), f"{name}: {rule.id}"
