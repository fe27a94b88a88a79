"""The authors' benchmark, and ours in its place."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UnknownModel
from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import Hardware

OURS = "dflash bench qwen3-8b --engine"


@pytest.mark.parametrize(
    ("options", "right"),
    [
        ("--backend vllm --dataset gsm8k --num-prompts 128 --concurrency 1",
         f"{OURS} vllm --dataset gsm8k --num-prompts 128 --concurrency 1"),
        ("--backend sglang --max-samples 8 --max-new-tokens 64",
         f"{OURS} sglang --num-prompts 8 --max-tokens 64"),
        ("--backend vllm --base-url http://127.0.0.1:8000/v1", f"{OURS} vllm"),
        ("--backend vllm --base-url http://gpu7:8000",
         f"{OURS} vllm --url http://gpu7:8000"),
        ("--backend vllm --base-url http://me:secret@gpu7:8000 --dataset '$(id)'", f"{OURS} vllm"),
        ("--backend transformers --draft-model z-lab/Qwen3-8B-DFlash-b16", f"{OURS} vllm"),
        ("--draft-model deepseek-ai/dflash_qwen3_8b_block7 --backend vllm",
         "dflash bench deepseek-ai/dflash_qwen3_8b_block7 --engine vllm"),
    ],
)  # fmt: skip
def test_the_same_measurement(explain, options: str, right: str) -> None:
    report = explain(f"python -m dflash.benchmark --model Qwen/Qwen3-8B {options}")
    assert (report.right_text, report.right) == (right, None)


def test_without_a_card_the_embedded_engine_takes_transformers_place(shipped) -> None:
    line = "torchrun --nproc_per_node=8 -m dflash.benchmark --backend transformers"
    words = from_text(f"{line} --model Qwen/Qwen3-8B")
    (report,) = reports(words, shipped, None, Hardware())
    assert report.right_text == f"{OURS} transformers"
    verdicts = {item.part: item.verdict for item in report.findings}
    assert verdicts == {"--backend transformers": "note", "torchrun": "unneeded"}


def test_thinking_is_asked_for_where_the_draft_knows_it(explain) -> None:
    line = "python -m dflash.benchmark --backend vllm --enable-thinking --model "
    assert explain(line + "Qwen/Qwen3.5-27B").right_text.endswith("--enable-thinking")
    assert "--enable-thinking" not in explain(line + "Qwen/Qwen3-8B").right_text


def test_a_model_that_is_not_known(explain) -> None:
    report = explain("python -m dflash.benchmark --backend vllm --model me/own")
    assert isinstance(report.right, UnknownModel)
