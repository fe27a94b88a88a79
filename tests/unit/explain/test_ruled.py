"""Rules speak at the option, the model or the release that they are about."""

from __future__ import annotations

import pytest

from dflash_deploy.plan import Plan
from tests.unit.explain.test_flags import PAIR, SGLANG


def test_the_block_the_draft_cannot_do(said) -> None:
    found = said(PAIR.replace("tokens 15", "tokens 31"))
    assert found["--speculative-config.num_speculative_tokens 31"] == "wrong"
    found = said(SGLANG + "--speculative-num-draft-tokens 32")
    assert found["--speculative-num-draft-tokens 32"] == "wrong"


def test_the_ranks_the_draft_cannot_be_cut_into(said) -> None:
    assert said(PAIR + "-tp 3")["-tp 3"] == "wrong"


def test_the_release(said) -> None:
    assert said(PAIR, version="0.21.0")["vllm 0.21.0"] == "wrong"
    assert said(PAIR, version="0.19.0")["vllm 0.19.0"] == "wrong"
    assert said(PAIR, version="9.0")["vllm 9.0"] == "note"
    assert "vllm 0.33.0" not in said(PAIR)


def test_the_draft_backend_inside_the_config(said) -> None:
    found = said(PAIR + "--speculative-config.attention_backend nope")
    assert found["--speculative-config.attention_backend nope"] == "wrong"


def test_a_budget_that_is_missing_is_missing(said) -> None:
    assert said(PAIR, version="0.26.0")["--max-num-batched-tokens"] == "missing"
    assert "--max-num-batched-tokens" not in said(PAIR + "--max-num-batched-tokens 32k",
                                                  version="0.26.0")  # fmt: skip


def test_a_flag_has_one_verdict(explain) -> None:
    short = ("vllm serve Qwen/Qwen3-8B --spec-model z-lab/Qwen3-8B-DFlash-b16 --spec-method dflash"
             " --spec-tokens ")  # fmt: skip
    for command in (short + "31", short + "7 -tp 3", PAIR + "-tp 3", SGLANG + "--tp 3"):
        found = explain(command).findings
        assert not {i.part for i in found if i.verdict == "fine"} & {
            i.part for i in found if i.verdict != "fine"
        }
    tokens = [item for item in explain(short + "31").findings if "spec-tokens" in item.part]
    assert [item.verdict for item in tokens] == ["wrong"]
    (fine,) = [item for item in explain(short + "7").findings if "spec-tokens" in item.part]
    assert fine.message.startswith("a block of 8")


@pytest.mark.parametrize("engine", ["vllm serve", "sglang serve --model-path"])
def test_what_dflash_cannot_do_is_told_where_nothing_asks_for_it_yet(explain, engine) -> None:
    report = explain(f"{engine} Qwen/Qwen3-8B --tensor-parallel-size 3")
    verdicts = {item.part: item.verdict for item in report.findings}
    assert verdicts["--tensor-parallel-size 3"] == "wrong"
    assert isinstance(report.right, Plan)
    assert report.right.tensor_parallel == 1


def test_more_cards_than_there_are_is_said_of_the_option(explain, said) -> None:
    command = "vllm serve moonshotai/Kimi-K2.5 -tp 8"
    assert said(command, gpu="RTX-4090")["-tp 8"] == "wrong"
    assert "the cards" not in said(command, gpu="RTX-4090")


QUANTIZED = (
    ("openai/gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash", "fp8", "unneeded", "wrong"),
    ("openai/gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash", "mxfp4", "fine", "note"),
    ("Qwen/Qwen3-32B-FP8", "chutesai/Qwen3-32B-FP8-DFLASH", "awq", "wrong", "wrong"),
    ("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", "fp8", "fine", "note"),
    ("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", "awq", "wrong", "wrong"),
    ("/models/qwen3-8b-awq", "z-lab/Qwen3-8B-DFlash-b16", "awq", "fine", "note"),
    ("moonshotai/Kimi-K2.6", "z-lab/Kimi-K2.6-DFlash", "fp8", "wrong", "wrong"),
)


@pytest.mark.parametrize(("target", "draft", "word", "vllm", "sglang"), QUANTIZED)
def test_weights_that_are_quantized_already(explain, target, draft, word, vllm, sglang) -> None:
    commands = {
        f"vllm serve {target} --spec-model {draft} --spec-method dflash --spec-tokens 7": vllm,
        f"sglang serve --model-path {target} --speculative-algorithm DFLASH"
        f" --speculative-draft-model-path {draft}": sglang,
    }
    for command, verdict in commands.items():
        report = explain(f"{command} --quantization {word}", gpu="B200:8")
        found = {item.part: item.verdict for item in report.findings}
        assert found[f"--quantization {word}"] == verdict
        kept = "--quantization" in (report.right_text or "")
        assert kept == (verdict in ("fine", "note"))


def test_of_an_option_said_twice_the_last_word_counts(explain) -> None:
    report = explain(PAIR + "--quantization mxfp4 --seed 1 --quantization=fp8 --seed 2")
    found = {item.part: item.verdict for item in report.findings}
    assert (found["--quantization mxfp4"], found["--seed 1"]) == ("unneeded", "unneeded")
    words = report.right_text.split()
    assert (words.count("--quantization"), words.count("--seed")) == (1, 1)
    assert (words[words.index("--quantization") + 1], words[words.index("--seed") + 1]) == (
        "fp8", "2")  # fmt: skip
