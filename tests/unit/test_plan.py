"""The plan: what an engine is started with, and what everything after it reads."""

from __future__ import annotations

import json

import msgspec
import pytest
from pins import pins

from dflash_deploy.choose import intended_draft
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import Plan, make_plan, reachable
from dflash_deploy.registry import load
from dflash_deploy.request import Request


@pytest.fixture(scope="module")
def registry():
    return load(user=False)


def planned(registry, model, engine, gpu=None, **options) -> Plan:
    hardware = parse(gpu, registry.gpus) if gpu else Hardware()
    return make_plan(registry, Request(model=model, engine=engine, **options), hardware)


def value(plan: Plan, flag: str) -> str:
    return plan.argv[plan.argv.index(flag) + 1]


def test_vllm_counts_draft_tokens_and_sglang_the_block(registry):
    vllm = planned(registry, "gpt-oss-20b", "vllm")
    speculation = json.loads(value(vllm, "--speculative-config"))
    assert speculation == {
        "method": "dflash",
        "model": "z-lab/gpt-oss-20b-DFlash",
        "num_speculative_tokens": 7,
        "revision": vllm.draft.revision,
    }
    sglang = planned(registry, "gpt-oss-20b", "sglang")
    assert value(sglang, "--speculative-num-draft-tokens") == "8"
    assert value(sglang, "--speculative-algorithm") == "DFLASH"


@pytest.mark.parametrize(("block", "load"), [(16, 1), (16, 64), (16, 1024), (8, 256), (10, 1)])
def test_the_token_budget_is_enough_on_every_release(registry, block, load):
    """0.20-0.27: left - (K-1)N must stay positive; 0.28-0.30: 2K+1 a request; 0.33: K+1."""
    model = {16: "qwen3-8b", 8: "gpt-oss-20b", 10: "gpt-oss-120b"}[block]
    plan = planned(registry, model, "vllm", concurrency=load)
    budget, k = int(value(plan, "--max-num-batched-tokens")), block - 1
    assert budget - (k - 1) * load >= 8192
    assert budget >= (2 * k + 1) * load


def test_the_server_answers_to_the_hub_id_and_the_alias_where_it_can(registry):
    vllm = planned(registry, "gpt-oss-20b", "vllm")
    assert vllm.served_names == ("openai/gpt-oss-20b", "gpt-oss-20b")
    assert planned(registry, "gpt-oss-20b", "sglang").served_names == ("openai/gpt-oss-20b",)


def test_the_drafts_thinking_mode_becomes_the_servers_default(registry):
    plan = planned(registry, "qwen3-8b", "vllm")
    assert json.loads(value(plan, "--default-chat-template-kwargs")) == {"enable_thinking": False}
    old = planned(registry, "qwen3-8b", "sglang", engine_version="0.5.14")
    assert "--default-chat-template-kwargs" not in old.argv
    assert any("thinking" in line for line in old.warnings)


def test_a_shipped_draft_is_a_folder_and_a_hub_draft_is_an_id(registry, demo_draft):
    demo = planned(registry, "smollm2-135m", "transformers")
    assert value(demo, "--draft") == demo.draft.path == str(demo_draft)
    assert planned(registry, "gpt-oss-20b", "vllm").draft.path is None


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("folder", ["/models/draft", "./draft"])
def test_a_draft_in_a_folder_has_no_revision(registry, engine, folder):
    hub = planned(registry, "qwen3-8b", engine)
    local = planned(registry, "qwen3-8b", engine, draft_path=folder)
    said = " ".join(local.argv)
    assert hub.draft.revision
    assert hub.draft.revision not in said
    assert (local.draft.path, local.draft.revision) == (folder, None)
    assert folder in said
    assert local.draft.id not in said


def test_a_key_is_named_and_never_written(registry, monkeypatch):
    monkeypatch.setenv("DFLASH_API_KEY", "sesame")
    plan = planned(registry, "gpt-oss-20b", "vllm", api_key_env="DFLASH_API_KEY")
    assert (plan.secrets[0].env, plan.secrets[0].taken_from) == ("VLLM_API_KEY", "DFLASH_API_KEY")
    assert b"sesame" not in msgspec.json.encode(plan)


def test_remote_code_is_trusted_for_the_target_that_needs_it_and_no_other(registry):
    kimi = planned(registry, "kimi-k2.5", "vllm", trust_remote_code=True)
    assert "--trust-remote-code" in kimi.argv
    other = planned(registry, "gpt-oss-20b", "vllm", trust_remote_code=True)
    assert "--trust-remote-code" not in other.argv


def test_every_choice_has_a_reason(registry):
    for name in registry.entries:
        entry = registry.entries[name]
        for engine in dict.fromkeys(recipe.when.engine for recipe in entry.model.recipes):
            newest = registry.engines[engine].releases[-1].version
            draft = intended_draft(entry, Request(model=name, engine=engine))
            plan = planned(registry, name, engine, trust_remote_code=True,
                           engine_args=pins(registry, entry, draft, engine, newest))  # fmt: skip
            assert all(choice.why for choice in plan.choices)
            assert len({choice.name for choice in plan.choices}) == len(plan.choices)


def test_what_is_said_of_the_draft_joins_the_plans_own_settings(registry):
    words = ("--seed=7", "-sc.num_speculative_tokens_per_batch_size", "[[1, 8, 15], [9, 64, 7]]",
             "-sc.attention_backend=TRITON_ATTN", "-O3")  # fmt: skip
    plan = planned(registry, "qwen3-8b", "vllm", engine_args=words)
    assert plan.argv.count("--speculative-config") == 1
    said = json.loads(plan.argv[plan.argv.index("--speculative-config") + 1])
    assert said["num_speculative_tokens_per_batch_size"] == [[1, 8, 15], [9, 64, 7]]
    assert said["attention_backend"] == "TRITON_ATTN"
    assert said["num_speculative_tokens"] == 15
    assert plan.argv[-2:] == ("--seed=7", "-O3")


def test_a_plan_survives_json(registry):
    plan = planned(registry, "gpt-oss-20b", "vllm")
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_the_expectation_is_the_lowest_seen_at_this_block_size(registry):
    assert planned(registry, "gpt-oss-20b", "sglang").expectation.acceptance_length == 4.2
    assert (
        planned(registry, "gpt-oss-120b", "sglang", block_size=4).expectation.acceptance_length
        == 2.7
    )
    assert planned(registry, "gpt-oss-120b", "sglang", block_size=5).expectation is None


def test_the_users_own_arguments_come_last(registry):
    plan = planned(registry, "gpt-oss-20b", "vllm", engine_args=("--seed", "7"))
    assert plan.argv[-2:] == ("--seed", "7")


def test_sglang_lets_a_draft_of_unknown_or_shorter_context_through(registry):
    env = planned(registry, "gpt-oss-20b", "sglang").env
    assert env["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"] == "1"
    assert (
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
        not in planned(registry, "qwen3-4b", "sglang").env
    )


def test_a_hybrid_target_names_its_state_cache_by_release(registry):
    early = planned(registry, "qwen3-coder-next", "sglang", engine_version="0.5.11")
    assert value(early, "--mamba-scheduler-strategy") == "extra_buffer"
    late = planned(registry, "qwen3-coder-next", "sglang")
    assert not [word for word in late.argv if word.startswith("--mamba")]  # SGLang's own choice


def test_a_release_that_reuses_prefixes_wrongly_gets_no_prefix_cache(registry):
    wrong = planned(registry, "qwen3.5-27b", "sglang", engine_version="0.5.17")
    assert "--disable-radix-cache" in wrong.argv
    assert any("0.5.18" in item.why for item in wrong.choices if item.name == "no_prefix_caching")
    mended = planned(registry, "qwen3.5-27b", "sglang", engine_version="0.5.18")
    assert "--disable-radix-cache" not in mended.argv


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("10.0.0.7", "10.0.0.7")],
)
def test_where_a_client_here_finds_the_server(host, address):
    assert reachable(host) == address


def test_the_users_kv_dtype_wins_over_the_recipes(registry):
    assert (
        value(planned(registry, "gpt-oss-20b", "vllm", kv_dtype="fp8"), "--kv-cache-dtype") == "fp8"
    )
    assert (
        value(planned(registry, "gpt-oss-20b", "sglang", kv_dtype="fp8"), "--kv-cache-dtype")
        == "fp8_e4m3"
    )


def test_a_memory_fraction_is_written_only_where_one_was_published(registry):
    assert value(planned(registry, "gpt-oss-20b", "sglang"), "--mem-fraction-static") == "0.75"
    assert "--mem-fraction-static" not in planned(registry, "gemma-4-31b", "sglang").argv


def test_a_printed_sglang_command_says_that_it_asks_for_no_key(registry):
    plan = planned(registry, "gpt-oss-20b", "sglang", api_key_env="DFLASH_API_KEY")
    assert any("asks for no key" in line for line in plan.warnings)


def test_the_cards_it_was_made_for_are_in_its_json(registry):
    plan = planned(registry, "gpt-oss-20b", "vllm", "H100:2")
    document = msgspec.json.decode(msgspec.json.encode(plan))["hardware"]
    assert [(card["name"], card["memory_gib"]) for card in document["cards"]] == [("H100", 80)] * 2
    assert (document["origin"], document["hidden"], document["trouble"]) == ("given", [], None)
    unknown = msgspec.json.decode(msgspec.json.encode(planned(registry, "gpt-oss-20b", "vllm")))
    assert unknown["hardware"]["origin"] == "none"
