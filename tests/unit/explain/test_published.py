"""Every command of five published cards, and the one the engine of today takes instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan
from dflash_deploy.registry import load

COMMANDS = Path(__file__).parents[2] / "fixtures" / "commands"
REGISTRY = load(user=False)
DRAFTS_ALONE = [path.stem for path in COMMANDS.glob("*-alone-*.txt")]
DEAD = {
    "# SGLANG_ENABLE_SPEC_V2=1", "# SGLANG_ENABLE_DFLASH_SPEC_V2=1",
    "# SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1",
}  # fmt: skip


def explained(name: str, gpu: str = "H100", version: str | None = None) -> list[Report]:
    text = (COMMANDS / f"{name}.txt").read_text(encoding="utf-8")
    return reports(from_text(text), REGISTRY, version, cards(gpu, REGISTRY.gpus))


def said(report: Report) -> dict[str, str]:
    return {item.part: item.verdict for item in report.findings}


OLD_SGLANG = {
    "--tp-size 1": "unneeded", "--dtype bfloat16": "unneeded", "--trust-remote-code": "unneeded",
    "--mem-fraction-static 0.75": "fine", "--max-running-requests": "missing",
} | dict.fromkeys(DEAD, "stale")  # fmt: skip
OLD_VLLM = {
    "--attention-backend flash_attn": "unneeded", "--max-num-seqs": "missing",
    "revision": "missing", "clients": "note",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "gpu", "expected"),
    [
        ("gpt-oss-20b-sglang", "H100", OLD_SGLANG | {"--attention-backend fa3": "unneeded"}),
        ("gpt-oss-20b-sglang", "B200", OLD_SGLANG | {"--attention-backend fa3": "wrong"}),
        ("gpt-oss-120b-sglang", "RTX-5090", OLD_SGLANG | {"--attention-backend fa3": "wrong"}),
        ("qwen3-4b-sglang", "H100", OLD_SGLANG | {"--default-chat-template-kwargs": "missing"}),
        ("gpt-oss-20b-vllm", "H100", OLD_VLLM | {"--max-num-batched-tokens 32768": "note"}),
        ("gpt-oss-120b-vllm", "A100", OLD_VLLM | {"--attention-backend flash_attn": "wrong"}),
        ("qwen3-4b-vllm", "H100", OLD_VLLM | {"--max-num-batched-tokens 32768": "unneeded"}),
        ("qwen3.5-27b-vllm", "H100", {"--attention-backend flash_attn": "unneeded"}),
        ("gemma-vllm", "B300", {"google/gemma-4-31B-it": "note", "--trust-remote-code": "unneeded",
                                "--default-chat-template-kwargs": "missing"}),
        ("gemma-sglang", "B300", {"--attention-backend triton": "unneeded"}),
        ("gemma-sglang", "A100", {"--speculative-draft-attention-backend fa4": "wrong"}),
        ("qwen3.5-35b-sglang", "B200", {"--mamba-scheduler-strategy extra_buffer": "stale",
                                        "--attention-backend trtllm_mha": "unneeded"}),
        ("qwen3.5-35b-sglang", "A100", {"--attention-backend trtllm_mha": "wrong"}),
        ("qwen3.5-35b-sglang", "H100", {"--attention-backend trtllm_mha": "note"}),
        ("install-sglang-pull", "H100", {"sglang pull request 20547": "stale"}),
        ("install-sglang-pull-gemma", "H100", {"sglang pull request 23000": "stale"}),
        ("install-vllm", "H100", {"vllm": "note"}),
        ("install-checkout-vllm", "H100", {".[vllm]": "unneeded"}),
        ("install-checkout-sglang", "H100", {".[sglang]": "unneeded"}),
        ("install-transformers", "H100", {"transformers==4.57.3": "unneeded"}),
        ("install-vllm-nightly", "H100", {"nightly wheels": "stale"}),
        ("install-vllm-pull", "H100", {"vllm pull request 41703": "stale"}),
        ("benchmark-vllm", "H100", {"--backend vllm": "fine"}),
        ("benchmark-sglang", "H100", {"--backend sglang": "fine"}),
        ("benchmark-transformers", "H100", {"--backend transformers": "note",
                                                "torchrun": "unneeded"}),
    ],
)  # fmt: skip
def test_what_is_said_of_each_part(name: str, gpu: str, expected: dict[str, str]) -> None:
    (report,) = explained(name, gpu)
    assert said(report).items() >= expected.items()


def test_a_renamed_flag_names_the_new_one_and_the_last_release() -> None:
    (report,) = explained("qwen3.5-35b-sglang", "B200")
    (stale,) = [item for item in report.findings if item.part.startswith("--mamba")]
    assert "0.5.19" in stale.message
    assert "--mamba-radix-cache-strategy" in stale.message
    (early,) = explained("qwen3.5-35b-sglang", "B200", version="0.5.14")
    assert said(early)["--mamba-scheduler-strategy extra_buffer"] == "fine"


@pytest.mark.parametrize("name", DRAFTS_ALONE)
def test_a_draft_alone_is_no_chat_model(name: str) -> None:
    made = explained(name, "H200")
    wrong = [item for report in made for item in report.findings if "no chat model" in item.message]
    assert wrong
    served = made[-1].right
    assert isinstance(served, Plan)
    assert served.model in ("google/gemma-4-31B-it", "openai/gpt-oss-120b")


@pytest.mark.parametrize("name", sorted(path.stem for path in COMMANDS.glob("*.txt")))
@pytest.mark.parametrize("gpu", ["A100:8", "H100:8", "B200:8", "RTX-PRO-6000:8"])
def test_the_right_command_is_one_that_the_newest_release_takes(name: str, gpu: str) -> None:
    made = explained(name, gpu)
    assert made
    for report in made:
        assert report.right_text
        if not isinstance(report.right, Plan):
            continue
        plan = report.right
        table = flag_table(plan.engine, Version(plan.version))
        given = parse(table, plan.argv[2:])
        assert all(item.known for item in given)
        assert [fault(item) for item in given] == [None] * len(given)


def test_what_the_user_decided_is_kept() -> None:
    text = (
        "vllm serve Qwen/Qwen3-8B --port 9000 --host 0.0.0.0 -tp 2 --max-model-len 4096 --seed 7"
        " --kv-cache-dtype fp8 --max-num-seqs 12 --speculative-config.method dflash"
        " --speculative-config.model z-lab/Qwen3-8B-DFlash-b16"
        " --speculative-config.num_speculative_tokens 7"
    )
    (report,) = reports(from_text(text), REGISTRY, None, cards("H100:8", REGISTRY.gpus))
    plan = report.right
    assert isinstance(plan, Plan)
    assert (plan.port, plan.host, plan.tensor_parallel, plan.context) == (9000, "0.0.0.0", 2, 4096)
    assert (plan.concurrency, plan.block_size) == (12, 8)
    words = " ".join(plan.argv)
    assert "--kv-cache-dtype fp8" in words
    assert "--seed 7" in words


def test_a_key_is_never_said_again() -> None:
    text = "HF_TOKEN=hf_4711 vllm serve Qwen/Qwen3-8B --api-key sk-4711"
    (report,) = reports(from_text(text), REGISTRY, None, cards("H100", REGISTRY.gpus))
    assert "4711" not in repr([report.findings, report.right_text])
    assert said(report)["--api-key ..."] == "wrong"


def judged(text: str, gpu: str = "H100") -> dict[str, str]:
    (report,) = reports(from_text(text), REGISTRY, None, cards(gpu, REGISTRY.gpus))
    return said(report)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("-tp 0", "-tp 0"),
        ("--max-num-seqs abc", "--max-num-seqs abc"),
        ("--max-model-len -5", "--max-model-len -5"),
        ("--port 99999999999", "--port 99999999999"),
        (
            "--speculative-config \"{'method': 'dflash'}\"",
            "--speculative-config {'method': 'dflash'}",
        ),
        ("--speculative-config 3", "--speculative-config 3"),
        ("--speculative-config '" + "[" * 100_000 + "'", None),
    ],
)
def test_a_value_that_cannot_be_is_wrong(words: str, part: str | None) -> None:
    found = judged(f"vllm serve Qwen/Qwen3-8B {words}")
    assert "wrong" in found.values()
    assert part is None or found[part] == "wrong"


def test_the_images_release_is_the_one_that_judges() -> None:
    config = (
        '{"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 15}'
    )
    image = "docker run --gpus all vllm/vllm-openai:v0.21.0"
    text = f"{image} Qwen/Qwen3-8B --speculative-config '{config}'"
    (report,) = reports(from_text(text), REGISTRY, None, cards("H100", REGISTRY.gpus))
    assert report.version == "0.21.0"
    assert "wrong" in said(report).values()
    assert isinstance(report.right, Plan)
    assert report.right.version == "0.33.0"
    old = judged("docker run lmsysorg/sglang:v0.5.9 sglang serve Qwen/Qwen3-8B")
    assert old["lmsysorg/sglang:v0.5.9"] == "stale"


@pytest.mark.parametrize(
    ("line", "part", "verdict"),
    [
        ("pip install vllm==banana", "vllm==banana", "wrong"),
        ("pip install vllm==0.19.0", "vllm==0.19.0", "wrong"),
        ("pip install vllm==0.30.0", "vllm==0.30.0", "fine"),
        ("pip install dflash", "dflash", "note"),
    ],
)
def test_install_lines(line: str, part: str, verdict: str) -> None:
    assert judged(line)[part] == verdict
