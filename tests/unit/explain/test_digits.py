"""Words that look like numbers, and numbers that are none."""

from __future__ import annotations

import json

import pytest

from dflash_deploy.errors import DFlashError
from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)
CARDS = parse("H100", REGISTRY.gpus)
DRAFT = "z-lab/Qwen3.5-4B-DFlash"
COMMIT = "1234567890" * 4
POWER = "1234567890" * 3 + "12345678e1"
CONFIG = {"method": "dflash", "model": DRAFT, "num_speculative_tokens": 15}
ENDLESS = "9" * 5000


def explained(command: str) -> Report:
    (report,) = reports(from_text(command), REGISTRY, None, CARDS)
    return report


def right(command: str) -> Plan:
    made = explained(command).right
    assert isinstance(made, Plan)
    return made


def speculation(plan: Plan) -> dict[str, object]:
    return json.loads(plan.argv[plan.argv.index("--speculative-config") + 1])


@pytest.mark.parametrize("commit", [COMMIT, POWER])
def test_a_commit_may_be_all_digits_or_a_power_of_ten(commit: str) -> None:
    sglang = right(
        "sglang serve --model-path Qwen/Qwen3.5-4B --speculative-algorithm DFLASH"
        f" --speculative-draft-model-path {DRAFT} --speculative-draft-model-revision {commit}"
    )
    assert commit in sglang.argv
    config = json.dumps(CONFIG | {"revision": commit})
    whole = right(f"vllm serve Qwen/Qwen3.5-4B --speculative-config '{config}'")
    keys = " ".join(f"--speculative-config.{key} {value}" for key, value in CONFIG.items())
    dotted = right(f"vllm serve Qwen/Qwen3.5-4B {keys} --speculative-config.revision {commit}")
    for plan in (whole, dotted):
        assert speculation(plan)["revision"] == commit
    said = ("--speculative-config.revision", commit)
    request = Request(model="qwen3.5-4b", engine="vllm", engine_args=said)
    assert speculation(make_plan(REGISTRY, request, CARDS))["revision"] == commit


@pytest.mark.parametrize("option", ["--revision", "--tokenizer-revision", "--served-model-name"])
def test_other_words_may_be_all_digits_too(option: str) -> None:
    config = json.dumps(CONFIG)
    command = f"vllm serve Qwen/Qwen3.5-4B {option} {COMMIT} --speculative-config '{config}'"
    found = explained(command)
    assert [item.verdict for item in found.findings if COMMIT in item.part] in (["fine"], ["note"])


@pytest.mark.parametrize(
    "option",
    ["--max-model-len", "--max-num-seqs", "--tensor-parallel-size", "--port",
     "--max-num-batched-tokens", "--pipeline-parallel-size"],
)  # fmt: skip
def test_a_count_that_never_ends_is_none(option: str) -> None:
    command = f"vllm serve Qwen/Qwen3.5-4B {option} {ENDLESS}"
    found = explained(f"{command} --speculative-config '{json.dumps(CONFIG)}'")
    assert [item.verdict for item in found.findings if ENDLESS[:50] in item.part] == ["wrong"]


@pytest.mark.parametrize("option", ["--max-num-batched-tokens", "--chunked-prefill-size"])
def test_nor_does_a_plan_break_on_one(option: str) -> None:
    engine = "vllm" if "batched" in option else "sglang"
    request = Request(model="qwen3-8b", engine=engine, engine_args=(option, ENDLESS))
    try:
        assert make_plan(REGISTRY, request, CARDS).context
    except DFlashError as refused:
        assert refused.hint


def test_draft_tokens_that_never_end_are_no_block() -> None:
    report = explained(
        f"vllm serve Qwen/Qwen3.5-4B --spec-model {DRAFT} --spec-method dflash"
        f" --spec-tokens {ENDLESS}"
    )
    assert not isinstance(report.right, Plan) or report.right.block_size == 16
