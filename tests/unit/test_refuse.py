"""What may not follow `--`: in any spelling the engine's parser knows."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request
from dflash_deploy.validate import problems

REGISTRY = load(user=False)


def planned(
    engine: str, *words: str, version: str | None = None, model: str = "qwen3-8b", gpu: str = ""
):
    request = Request(model=model, engine=engine, engine_version=version, engine_args=words)
    return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus) if gpu else Hardware())


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", ("-sc", "{}")),
        ("vllm", ("--speculative_config", "{}")),
        ("vllm", ("--speculative-config.method=eagle",)),
        ("vllm", ("--spec-tokens", "3")),
        ("vllm", ("--model", "other/model")),
        ("vllm", ("--served_model_name", "x")),
        ("vllm", ("-tp", "3")),
        ("vllm", ("--max-model-len", "100")),
        ("vllm", ("--trust-remote-code",)),
        ("sglang", ("--model", "other/model")),
        ("sglang", ("--speculative-draft-model", "other/draft")),
        ("sglang", ("--speculative-dflash-block-size", "4")),
        ("sglang", ("--tensor-parallel-size=2",)),
        ("sglang", ("--max-running-requests", "7")),
        ("sglang", ("--config", "/etc/passwd")),
    ],
)
def test_what_the_plan_decides_cannot_be_said_behind_its_back(engine, words):
    with pytest.raises(UsageError, match="would contradict the plan"):
        planned(engine, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-sc", '{"kv_cache_dtype": "auto", "model": "a/b"}'), "--speculative-config.model after"),
        (("-sc.revision", "a" * 40), "--speculative-config.revision after"),
        (("-sc.blocks", "3"), "has no option --speculative-config.blocks"),
        (("-sc", "no json"), "--speculative-config after"),
    ],
)
def test_of_the_drafts_settings_what_is_not_decided_may_be_said(words, message) -> None:
    with pytest.raises(UsageError, match=message):
        planned("vllm", *words)


def test_keys_that_a_release_does_not_know_are_refused() -> None:
    schedule = ("-sc.num_speculative_tokens_per_batch_size", "[[1, 8, 7]]")
    with pytest.raises(UsageError, match="num_speculative_tokens_per_batch_size"):
        planned("vllm", *schedule, version="0.23.0")
    assert planned("vllm", *schedule, version="0.24.0")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_remote_code_runs_at_a_commit_alone(engine) -> None:
    def kimi(*words: str, **asked):
        request = Request(model="kimi-k2.7-code", engine=engine, trust_remote_code=True,
                          engine_args=words, **asked)  # fmt: skip
        return make_plan(REGISTRY, request, Hardware())

    both = ("moonshotai/Kimi-K2.7-Code", "nvidia/Kimi-K2.7-Code-DFlash")
    draft = {"vllm": "--speculative-config.revision",
             "sglang": "--speculative-draft-model-revision"}[engine]  # fmt: skip
    with pytest.raises(Unsupported, match=" and ".join(both)) as stopped:
        kimi()
    assert stopped.value.hint.endswith(f"-- --revision COMMIT {draft} COMMIT")
    with pytest.raises(Unsupported, match=f"for {both[1]},"):
        kimi("--revision", "a" * 40)
    with pytest.raises(Unsupported, match=f"for {both[0]},"):
        kimi("--revision", "main", draft, "b" * 40)
    with pytest.raises(Unsupported, match=f"for {both[1]},"):
        kimi(target_path="/models/kimi")
    plan = kimi("--revision", "a" * 40, draft, "b" * 40)
    assert (plan.target.revision, plan.draft.revision) == ("a" * 40, "b" * 40)
    assert "b" * 40 in " ".join(plan.argv)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_code_in_a_folder_of_one_s_own_has_no_commit(engine) -> None:
    entry = REGISTRY.find("kimi-k2.7-code")
    draft = entry.draft("nvidia/Kimi-K2.7-Code-DFlash")
    [weights, *_] = entry.target.weights
    own = msgspec.structs.replace(
        entry.model,
        drafts=[msgspec.structs.replace(draft, path="/drafts/kimi", revision=None)],
        target=msgspec.structs.replace(
            entry.target, weights=[msgspec.structs.replace(weights, path="/kimi", revision=None)]
        ),
    )
    mine = replace(entry, model=own, layer="user", below=None)
    assert "whole commit" not in " ".join(str(one) for one in problems([mine], REGISTRY.engines))
    registry = replace(REGISTRY, entries=REGISTRY.entries | {entry.id: mine})
    request = Request(model="kimi-k2.7-code", engine=engine, trust_remote_code=True)
    plan = make_plan(registry, request, Hardware())
    assert (plan.target.path, plan.draft.path) == ("/kimi", "/drafts/kimi")
    assert "/kimi" in plan.argv


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_key_is_never_an_argument(engine):
    with pytest.raises(UsageError, match="everybody to see"):
        planned(engine, "--api-key=sk-1")


def test_an_option_that_this_release_has_not_is_refused():
    with pytest.raises(UsageError, match="has no option --mamba-scheduler-strategy"):
        planned("sglang", "--mamba-scheduler-strategy", "extra_buffer")
    early = planned("sglang", "--mamba-scheduler-strategy", "extra_buffer", version="0.5.19")
    assert early.argv[-2:] == ("--mamba-scheduler-strategy", "extra_buffer")


def test_an_option_of_a_release_that_nobody_here_has_seen_passes():
    assert planned("vllm", "--brand-new", "1", version="0.99.0").argv[-2:] == ("--brand-new", "1")


def test_what_is_left_goes_to_the_engine():
    words = ("--seed", "7", "--gpu-memory-utilization=0.85")
    assert planned("vllm", *words).argv[-3:] == words


def test_a_parsers_older_name_for_an_option_means_the_same():
    with pytest.raises(UsageError, match="would contradict the plan"):
        planned("sglang", "--tp-size", "2", version="0.5.11")


def test_a_value_that_the_parser_does_not_take_is_refused():
    with pytest.raises(UsageError, match="--kv-cache-dtype fp8: not among its choices") as refusal:
        planned("sglang", "--kv-cache-dtype", "fp8")
    assert "fp8_e4m3" in str(refusal.value.hint)


@pytest.mark.parametrize("flag", ["--attention-backend", "--prefill-attention-backend",
                                  "--decode-attention-backend"])  # fmt: skip
def test_each_of_sglangs_backends_is_judged(flag):
    with pytest.raises(Unsupported, match="attention sinks"):
        planned("sglang", flag, "flashinfer", model="gpt-oss-20b", gpu="H100")


def test_one_good_backend_does_not_hide_a_bad_one():
    words = ("--attention-backend", "triton", "--prefill-attention-backend", "flashinfer")
    with pytest.raises(Unsupported, match="attention sinks"):
        planned("sglang", *words, model="gpt-oss-20b", gpu="H100")


def test_a_kv_dtype_in_the_engines_words_is_judged_like_ours():
    plan = planned("vllm", "--kv-cache-dtype", "fp8", model="gemma-4-31b", gpu="RTX-6000-ADA:8")
    assert '"attention_backend": "triton_attn"' in " ".join(plan.argv)
    assert plan.argv.count("--kv-cache-dtype") == 1


@pytest.mark.parametrize(("said", "mode"), [("true", "on"), ("false", "off")])
def test_a_thinking_mode_in_the_engines_words_is_the_plans(said, mode):
    words = ("--default-chat-template-kwargs", '{"enable_thinking": %s}' % said)  # noqa: UP031
    plan = planned("vllm", *words)
    assert plan.argv.count(words[0]) == 1
    assert plan.thinking == mode
    assert any("other thinking mode" in line for line in plan.warnings) is (mode == "on")


@pytest.mark.parametrize(
    ("engine", "flag"), [("vllm", "-dp"), ("vllm", "--data-parallel-size"), ("sglang", "--dp-size")]
)
def test_copies_of_the_model_want_cards(engine, flag):
    with pytest.raises(Unsupported, match="needs 2 cards, and there is only 1 x H100"):
        planned(engine, flag, "2", gpu="H100")
    assert planned(engine, flag, "2", gpu="H100:2").argv[-2:] == (flag, "2")


@pytest.mark.parametrize("share", ["1.5", "abc", "0", "inf", "nan", "-0.5"])
@pytest.mark.parametrize(
    ("engine", "flag"), [("vllm", "--gpu-memory-utilization"), ("sglang", "--mem-fraction-static")]
)
def test_a_share_of_the_card_is_a_share(engine, flag, share) -> None:
    with pytest.raises(UsageError, match="a share of the card's memory"):
        planned(engine, f"{flag}={share}")


def test_our_option_and_the_engines_do_not_contradict_each_other() -> None:
    request = Request(model="qwen3-8b", engine="vllm", kv_dtype="fp8",
                      engine_args=("--kv-cache-dtype", "bfloat16"))  # fmt: skip
    with pytest.raises(UsageError, match="which of them"):
        make_plan(REGISTRY, request, Hardware())


@pytest.mark.parametrize(
    "words",
    [("--code-revision", "main"), ("-sc.code_revision", "main"), ("--tokenizer", "evil/tok")],
)
def test_with_remote_code_nothing_brings_other_code(words) -> None:
    request = Request(model="kimi-k2.5", engine="vllm", trust_remote_code=True, engine_args=words)
    with pytest.raises(Unsupported, match="brings code from elsewhere"):
        make_plan(REGISTRY, request, Hardware())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--config", "x.yaml"), "would contradict"),
        (("--uds", "/tmp/x"), "would contradict"),
        (("--disable-log-stats",), "would contradict"),
        (("--headless",), "would contradict"),
        (("--hf-token", "hf_x"), "everybody to see"),
    ],
)
def test_what_would_take_the_server_out_of_our_hands(words, said) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        planned("vllm", *words)
    assert "hf_x" not in f"{refusal.value} {refusal.value.hint}"


def test_an_option_that_no_release_around_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="no option --bogus-flag"):
        planned("vllm", "--bogus-flag", version="0.26.1")


def test_a_recipe_from_elsewhere_says_nothing_that_this_release_refuses(tmp_path) -> None:
    path = tmp_path / "models" / "own" / "x.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "extends: Qwen/Qwen3-8B\nrecipes:\n"
        "  - {name: own, when: {engine: vllm}, flags: [--moe-backend=batched_triton], why: mine, source: me}\n"
    )
    registry = load(tmp_path, user=False)
    newest = Request(model="qwen3-8b", engine="vllm", engine_version="0.33.0")
    assert "--moe-backend=batched_triton" in make_plan(registry, newest, Hardware()).argv
    older = replace(newest, engine_version="0.26.0")
    with pytest.raises(
        Unsupported, match="recipe own: --moe-backend batched_triton: not among its choices"
    ):
        make_plan(registry, older, Hardware())
