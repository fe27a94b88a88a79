"""Each question of a request: the answer, its reason, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.choose import mismatches
from dflash_deploy.errors import EngineError, RegistryError, UnknownModel, Unsupported, UsageError
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.registry import Registry, load
from dflash_deploy.request import Request
from dflash_deploy.resolve import resolve
from dflash_deploy.schema import When


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load(user=False)


def resolved(
    registry: Registry, model: str, engine: str = "vllm", gpu: str | None = None, **options
):
    hardware = parse(gpu, registry.gpus) if gpu else Hardware()
    return resolve(registry, Request(model=model, engine=engine, **options), hardware)


def why(resolution, name: str) -> str:
    return next(choice.why for choice in resolution.choices if choice.name == name)


def test_an_alias_a_target_and_a_draft_name_the_same_entry(registry):
    names = ("gpt-oss-20b", "openai/gpt-oss-20b", "OPENAI/GPT-OSS-20B", "z-lab/gpt-oss-20b-DFlash")
    assert {resolved(registry, name).entry.id for name in names} == {"openai/gpt-oss-20b"}


def test_an_unknown_name_gets_a_suggestion_and_never_a_guess(registry):
    with pytest.raises(UnknownModel) as caught:
        resolved(registry, "gpt-os-20b")
    assert caught.value.exit_code == 3
    assert "gpt-oss-20b" in caught.value.hint


def test_without_a_release_the_newest_known_is_planned_for(registry):
    newest = registry.engines["vllm"].releases[-1].version
    assert str(resolved(registry, "gpt-oss-20b").version) == newest


def test_a_release_below_the_floor_is_refused_with_the_reason_and_the_command(registry):
    with pytest.raises(EngineError) as caught:
        resolved(registry, "gpt-oss-120b", engine_version="0.22.1")
    assert "0.23.0" in caught.value.message
    assert "KV cache" in caught.value.message
    assert caught.value.hint == "dflash engine install vllm==0.33.0"


@pytest.mark.parametrize(
    ("model", "engine", "below", "at"),
    [
        ("qwen3-8b", "vllm", "0.22.1", "0.23.0"),
        ("qwen3.5-27b", "vllm", "0.25.1", "0.26.0"),
        ("qwen3.5-27b", "sglang", "0.5.13.post1", "0.5.14"),
        ("gemma-4-31b", "sglang", "0.5.13.post1", "0.5.14"),
        ("qwen3-8b", "sglang", "0.5.10.post1", "0.5.11"),
    ],
)
def test_the_floor_itself_is_served_and_the_release_before_is_not(
    registry, model, engine, below, at
):
    assert str(resolved(registry, model, engine, engine_version=at).version) == at
    with pytest.raises(EngineError):
        resolved(registry, model, engine, engine_version=below)


def test_a_newer_release_than_any_known_is_planned_with_a_warning(registry):
    resolution = resolved(registry, "gpt-oss-20b", engine_version="0.99.0")
    assert any("newer than any release" in line for line in resolution.warnings)


def test_a_word_that_is_no_release_is_a_usage_error(registry):
    with pytest.raises(UsageError, match="latest"):
        resolved(registry, "gpt-oss-20b", engine_version="latest")


def test_the_block_size_is_the_trained_one_and_never_longer(registry):
    assert resolved(registry, "gpt-oss-120b").block_size == 10
    assert resolved(registry, "gpt-oss-120b", block_size=4).block_size == 4
    for wrong in (1, 11):
        with pytest.raises(UsageError, match="trained with blocks of 10"):
            resolved(registry, "gpt-oss-120b", block_size=wrong)


def test_high_load_gets_the_shorter_block_where_evidence_says_so(registry):
    assert resolved(registry, "qwen3.5-27b").block_size == 16
    assert resolved(registry, "qwen3.5-27b", concurrency=1).block_size == 16
    high = resolved(registry, "qwen3.5-27b", concurrency=32)
    assert high.block_size == 8
    assert "block 16" in why(high, "block_size")


def test_a_rule_for_a_card_needs_that_card(registry):
    unknown = resolved(registry, "gpt-oss-20b", "sglang", engine_version="0.5.20")
    assert unknown.fixes == ()
    on_b200 = resolved(registry, "gpt-oss-20b", "sglang", "B200", engine_version="0.5.20")
    assert on_b200.fix("draft_attention_backend").value == "fa4"
    on_h100 = resolved(registry, "gpt-oss-20b", "sglang", "H100", engine_version="0.5.20")
    assert on_h100.fix("draft_attention_backend") is None


def test_a_recipe_for_a_card_needs_that_card(registry):
    on_b200 = resolved(registry, "glm-5.3-flash", "sglang", "B200:8")
    assert (on_b200.recipe.name, on_b200.recipe.draft_attention_backend) == ("sglang", "fa4")
    on_a100 = resolved(registry, "glm-5.3-flash", "sglang", "A100:8")
    assert on_a100.recipe.name == "sglang-others"
    assert [item.name for item in on_a100.rejected] == ["sglang"]


def test_a_recipe_for_one_card_is_not_for_its_like(registry):
    when = When(cards=["H200"])
    request = Request(model="m", engine="vllm")
    for gpu, wrong in (("H200:2", []), ("H100", ["for H200, not H100"])):
        cards = parse(gpu, registry.gpus)
        assert [*mismatches(when, request, Version("1"), cards, None)] == wrong
    unknown = mismatches(when, request, Version("1"), Hardware(), None)
    assert [*unknown] == ["for H200, not an unknown card"]


def test_engine_cost_alone_leaves_a_pair_untested(registry):
    at = resolved(registry, "qwen3-8b", "vllm", "H200")
    (said,) = [line for line in at.warnings if "untested" in line]
    assert (
        "synthetic acceptance (vllm 0.26.0, H200, 2026-11-30: 4.98x at 1 with draft tokens"
        " 15 up to 16 requests, 7 up to 64)" in said
    )
    (said,) = [line for line in resolved(registry, "qwen3-8b", "transformers").warnings
               if "untested" in line]  # fmt: skip
    assert "no figures are published or measured" in said


def test_what_the_user_adds_is_judged_by_the_same_rules(registry):
    with pytest.raises(Unsupported, match="fa3 runs on Ampere"):
        resolved(registry, "qwen3-8b", "sglang", "B200", engine_args=("--attention-backend", "fa3"))
    with pytest.raises(Unsupported, match="one pipeline stage"):
        resolved(registry, "qwen3-8b", "sglang", engine_args=("--pp-size=2",))


def test_a_drafts_hub_id_asks_for_that_draft(registry):
    second = resolved(registry, "incoai/Qwen3.6-35B-A3B-DFlash2", "vllm")
    assert (second.draft.id, second.block_size) == ("incoai/Qwen3.6-35B-A3B-DFlash2", 8)
    assert resolved(registry, "qwen3.6-35b", "vllm").draft.id == "z-lab/Qwen3.6-35B-A3B-DFlash"


def test_a_draft_or_target_that_nothing_serves_says_why(registry):
    with pytest.raises(Unsupported, match=r"dflash_qwen3_4b_block7 cannot be served: .*#49614"):
        resolved(registry, "deepseek-ai/dflash_qwen3_4b_block7")
    with pytest.raises(Unsupported, match=r"alpamayo-1\.5-10b cannot be served"):
        resolved(registry, "alpamayo-1.5-10b")


def test_a_draft_that_nobody_read_can_be_added(registry):
    """Where the hub has it; what an entry stands in for needs its target named too."""
    unread = [
        (entry, draft) for entry in registry.entries.values() for draft in entry.model.drafts
        if draft.block_size is None and not entry.stands_in
    ]  # fmt: skip
    for entry, draft in unread:
        with pytest.raises(Unsupported) as caught:
            resolved(registry, draft.id)
        wanted = f"registry add {draft.id}" if draft.on_hub else f"show {entry.name}"
        assert caught.value.hint == f"dflash {wanted}"
    assert {draft.on_hub for _, draft in unread} == {True, False}
    with pytest.raises(Unsupported) as caught:
        resolved(registry, "glm-5.1")
    assert caught.value.hint == "dflash registry add z-lab/GLM-5.1-FP8-DFlash"


def test_a_restricted_licence_is_said_before_anything_is_fetched(registry):
    lines = resolved(registry, "minimax-m2.7").warnings
    assert any("evaluation alone" in line for line in lines)


def test_a_release_candidate_is_planned_as_the_release(registry):
    early = resolved(registry, "qwen3.5-27b", "sglang", "B200", engine_version="0.5.14rc1")
    assert early.fix("no_prefix_caching")


def test_the_thinking_mode_is_the_drafts(registry):
    assert resolved(registry, "qwen3-4b").thinking == "off"
    assert resolved(registry, "qwen3.5-27b").thinking == "on"
    assert resolved(registry, "llama-3.1-8b").thinking is None


def test_cards_are_counted_from_the_documented_minimum(registry):
    """Where no estimate can be made: here the draft's layers are not known."""
    assert resolved(registry, "minimax-m2.5").tensor_parallel == 4
    assert resolved(registry, "minimax-m2.5", gpu="A100-40:8").tensor_parallel == 8
    with pytest.raises(Unsupported) as caught:
        resolved(registry, "minimax-m2.5", gpu="A100-40:4")
    assert caught.value.exit_code == 4
    assert "276 GB in all" in caught.value.message
    assert "--gpu A100-40:8" in caught.value.hint


def test_a_target_with_code_of_its_own_waits_for_the_users_word(registry):
    with pytest.raises(Unsupported) as caught:
        resolved(registry, "kimi-k2.5")
    assert "--trust-remote-code" in caught.value.hint
    assert resolved(registry, "kimi-k2.5", trust_remote_code=True).tensor_parallel == 8


def test_more_context_than_the_target_reads_is_refused(registry):
    assert resolved(registry, "qwen3-8b").context == 32768
    assert resolved(registry, "qwen3-8b", context=40960).context == 40960
    with pytest.raises(Unsupported, match="at most 40960"):
        resolved(registry, "qwen3-8b", context=40961)


def test_an_engine_without_a_recipe_is_refused_with_one_that_has(registry):
    with pytest.raises(Unsupported) as caught:
        resolved(registry, "gpt-oss-20b", "transformers")
    assert caught.value.hint == "dflash plan gpt-oss-20b --engine vllm"


def test_an_unknown_set_of_weights_names_the_known_ones(registry):
    with pytest.raises(UsageError) as caught:
        resolved(registry, "smollm2-135m", "transformers", weights="fp4")
    assert "q4_1" in caught.value.hint


def test_gemma_on_vllm_carries_its_warning_and_sglang_comes_first(registry):
    from dflash_deploy.choose import default_engine

    assert default_engine(registry.find("gemma-4-31b"), "gemma-4-31b") == "sglang"
    assert any("embedding" in line for line in resolved(registry, "gemma-4-31b").warnings)
    on_sglang = resolved(registry, "gemma-4-31b", "sglang")
    assert not any("embedding" in line for line in on_sglang.warnings)


def test_nothing_of_a_foreign_entry_is_used_while_anything_is_wrong_with_it(tmp_path):
    file = tmp_path / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    text = "extends: openai/gpt-oss-20b\nrecipes: [{{name: mine, when: {{engine: vllm}}, flags: [{}], why: w, source: s}}]\n"
    file.write_text(text.format("--chat-template=/tmp/evil"))
    with pytest.raises(RegistryError, match="--chat-template"):
        resolved(load(tmp_path, user=False), "gpt-oss-20b")
    file.write_text(text.format("--moe-backend=triton"))
    assert resolved(load(tmp_path, user=False), "gpt-oss-20b").recipe.name == "mine"


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("--port", "9"), "--port"),
        (("--port=9",), "--port"),
        (("--speculative-config", "{}"), "--block-size"),
        (("--api-key", "sk"), "DFLASH_API_KEY"),
    ],
)
def test_what_the_command_decides_is_not_said_behind_its_back(registry, args, hint):
    with pytest.raises(UsageError) as caught:
        resolved(registry, "gpt-oss-20b", engine_args=args)
    assert hint in caught.value.hint
    assert resolved(registry, "gpt-oss-20b", engine_args=("--seed", "7")).request.engine_args


def test_what_was_seen_with_other_weights_says_nothing_about_these(registry):
    def status(weights: str) -> str:
        return resolved(registry, "smollm2-135m", "transformers", weights=weights).status

    assert status("q4_1") == "verified"
    assert status("bf16") == "untested"


def test_a_load_nobody_stated_is_said_to_be_taken_for_a_low_one(registry):
    assert "--concurrency" in why(resolved(registry, "qwen3.5-27b"), "recipe")
    assert "--concurrency" not in why(resolved(registry, "qwen3.5-27b", concurrency=4), "recipe")


@pytest.mark.parametrize(("most", "warned"), [(8, True), (63, True), (64, False), (100, False)])
def test_a_recipe_for_all_that_the_server_admits_asks_for_no_load(registry, most, warned):
    entry = registry.find("qwen3-8b")
    mine = msgspec.structs.replace(
        entry.model.recipes[-3], name="mine", when=When(engine="vllm", concurrency_at_most=most)
    )
    model = msgspec.structs.replace(entry.model, recipes=[mine, *entry.model.recipes])
    known = replace(registry, entries={**registry.entries, entry.id: replace(entry, model=model)})
    at = resolved(known, "qwen3-8b", "vllm", "H200")
    assert at.recipe.name == "mine"
    assert at.concurrency == 64
    assert any("requests at once" in line for line in at.warnings) is warned
    assert ("requests at once" in why(at, "recipe")) is warned


@pytest.mark.parametrize(
    "text",
    [
        "memory_fraction: 7.0",
        "max_concurrency: -3",
        "when: {engine: vllm, memory_at_least_gib: 0}",
    ],
)
def test_a_number_without_meaning_is_refused_with_its_line(tmp_path, text):
    file = tmp_path / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"extends: openai/gpt-oss-20b\nrecipes:\n  - name: mine\n    {text}\n    why: w\n    source: s\n"
    )
    with pytest.raises(RegistryError, match=r"mine.yaml:4: recipes\[0\]"):
        load(tmp_path, user=False)


def test_an_entry_without_a_floor_still_needs_an_engine_that_knows_dflash(registry):
    from dataclasses import replace

    import msgspec

    entry = registry.find("gpt-oss-20b")
    bare = replace(entry, model=msgspec.structs.replace(entry.model, floors=[]))
    with pytest.raises(EngineError, match=r"has no DFlash: 0.20.0 is the first"):
        resolved(
            replace(registry, entries={entry.id: bare}), "gpt-oss-20b", engine_version="0.19.1"
        )
