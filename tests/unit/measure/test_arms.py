from __future__ import annotations

import json

import pytest
from packaging.version import Version

from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.flag_tables import tables
from dflash_deploy.hardware import parse
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.measure.arms import (
    SIMULATED_FROM,
    check_simulation,
    dflash_arm,
    other_arm,
    plain_arm,
    read_other,
)
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request
from tests.fakes.plans import plan as fake_plan


def planned(engine: str, version: str | None = None, **options):
    registry = load(user=False)
    request = Request(model="qwen3-8b", engine=engine, engine_version=version, **options)
    return make_plan(registry, request, parse("H100", registry.gpus))


def config_of(argv: tuple[str, ...]) -> dict:
    return json.loads(argv[argv.index(SPECULATION) + 1])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_plain_is_the_same_server_without_the_draft(engine):
    plan = planned(engine, concurrency=32)
    arm, bare = plain_arm(plan)
    assert arm.argv == bare.argv
    assert not [word for word in bare.argv if "spec" in word.lower() or "DFlash" in word]
    left = [word for word in plan.argv if word in bare.argv]
    assert left == list(bare.argv)
    requests = "--max-num-seqs" if engine == "vllm" else "--max-running-requests"
    assert bare.argv[bare.argv.index(requests) + 1] == "32"


def test_dotted_keys_and_reports_on_drafts_go_with_the_draft():
    words = (
        "--speculative-config.draft_sample_method",
        "greedy",
        "--per-request-spec-decode-metrics",
        "summary",
        "--seed",
        "3",
    )
    bare = plain_arm(planned("vllm", engine_args=words))[1]
    assert bare.argv[-2:] == ("--seed", "3")
    assert not [word for word in bare.argv if "spec" in word]


def test_what_the_users_own_words_make_up_is_labelled_so_too():
    words = ("-sc.rejection_sample_method", "synthetic")
    by_length = ("-sc.synthetic_acceptance_length", "3.5")
    by_rates = ("-sc.synthetic_acceptance_rates", "[0.5, 0.25, 0.0]")
    arm, _ = dflash_arm(planned("vllm", "0.26.0", engine_args=(*words, *by_length)))
    assert arm.synthetic_length == 3.5
    arm, _ = dflash_arm(planned("vllm", "0.26.0", engine_args=(*words, *by_rates), block_size=4))
    assert arm.synthetic_length == 1.75


def test_a_variable_that_makes_acceptance_up_is_refused():
    check_simulation({"PATH": "/bin"})
    with pytest.raises(UsageError, match="SGLANG_SIMULATE_ACC_LEN is set") as caught:
        check_simulation({"SGLANG_SIMULATE_ACC_LEN": "6"})
    assert "unset" in (caught.value.hint or "")


def test_a_schedule_among_the_users_own_words_is_no_block():
    words = ("-sc.num_speculative_tokens_per_batch_size", "[[1, 8, 15], [9, 64, 7]]")
    arm, _ = dflash_arm(planned("vllm", "0.26.0", engine_args=words))
    assert (arm.name, arm.schedule) == ("dflash-16-schedule", ((1, 8, 15), (9, 64, 7)))


def test_dflash_is_named_by_its_block():
    arm, plan = dflash_arm(planned("vllm", block_size=8))
    assert (arm.name, arm.block_size, arm.synthetic_length) == ("dflash-8", 8, None)
    assert config_of(plan.argv)["num_speculative_tokens"] == 7


def test_vllms_made_up_acceptance_has_a_rate_for_each_token():
    rates = (0.8, 0.6, 0.4)
    arm, plan = dflash_arm(planned("vllm", block_size=4), rates)
    config = config_of(plan.argv)
    assert plan.argv.count(SPECULATION) == 1
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == list(rates)
    assert config["method"] == "dflash"
    assert (arm.synthetic_length, arm.synthetic_rates) == (2.8, rates)


def test_sglangs_made_up_acceptance_is_a_length_in_the_environment():
    arm, plan = dflash_arm(planned("sglang", block_size=4), (0.8, 0.6, 0.4))
    assert plan.env["SGLANG_SIMULATE_ACC_LEN"] == "2.8000"
    assert plan.env["SGLANG_SIMULATE_ACC_TOKEN_MODE"] == "real-draft-token"
    assert arm.env == plan.env


def test_an_sglang_that_would_not_make_it_up_for_dflash_is_refused():
    with pytest.raises(Unsupported, match=r"0\.5\.16 makes no acceptance up for DFlash") as caught:
        dflash_arm(planned("sglang", "0.5.16", block_size=4), (0.8, 0.6, 0.4))
    assert caught.value.hint == "--engine-version 0.5.17"


@pytest.mark.parametrize(
    ("said", "config"),
    [
        ("mtp", {"method": "mtp", "num_speculative_tokens": 3}),
        ("mtp:1", {"method": "mtp", "num_speculative_tokens": 1}),
        ("eagle3=org/draft", {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 3}),
        ("ngram", {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}),
    ],
)  # fmt: skip
def test_other_methods_in_vllms_words(said, config):
    arm, plan = other_arm(planned("vllm"), read_other(said))
    assert config_of(plan.argv) == config
    assert arm.name == f"{config['method']}-{config['num_speculative_tokens']}"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("mtp:2", "--speculative-algorithm EAGLE --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3"),
        ("eagle3=org/draft", "--speculative-algorithm EAGLE3 --speculative-draft-model-path org/draft --speculative-num-steps 3"),
        ("ngram", "--speculative-algorithm NGRAM --speculative-num-draft-tokens 5"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [None, "0.5.17"])
def test_other_methods_in_sglangs_words(said, words, version):
    _, plan = other_arm(planned("sglang", version), read_other(said))
    assert words in " ".join(plan.argv)
    assert "DFLASH" not in plan.argv


def test_the_embedded_engine_has_dflash_alone():
    registry = load(user=False)
    plan = make_plan(
        registry, Request(model="smollm2-135m", engine="transformers"), parse("H100", registry.gpus)
    )
    for attempt in (lambda: other_arm(plan, read_other("ngram")), lambda: dflash_arm(plan, (0.5,))):
        with pytest.raises(Unsupported, match="embedded engine"):
            attempt()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_release_known_has_every_arm(engine):
    for table in tables(engine):
        a_plan = fake_plan(engine, version=table.version)
        for said in ("mtp", "eagle3=org/draft", "ngram"):
            other_arm(a_plan, read_other(said))
        if engine == "vllm" or Version(table.version) >= SIMULATED_FROM:
            dflash_arm(a_plan, (0.5,) * 15)


@pytest.mark.parametrize("said", ["medusa", "eagle3", "mtp=x", "mtp:0", "mtp:x", ""])
def test_what_is_no_arm_is_told(said):
    with pytest.raises(UsageError):
        read_other(said)


def test_a_release_that_lacks_a_key_is_told_which_has_it(monkeypatch):
    from dflash_deploy.measure import arms

    monkeypatch.setattr(arms, "LOOKUP", {"prompt_lookup_depth": 1})
    with pytest.raises(Unsupported, match="prompt_lookup_depth"):
        other_arm(planned("vllm"), read_other("ngram"))
