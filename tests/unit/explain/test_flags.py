"""Options, one by one."""

from __future__ import annotations

import pytest

PAIR = (
    "vllm serve Qwen/Qwen3-8B --speculative-config.method dflash"
    " --speculative-config.model z-lab/Qwen3-8B-DFlash-b16"
    " --speculative-config.num_speculative_tokens 15 "
)
SGLANG = (
    "sglang serve --model-path Qwen/Qwen3-8B --speculative-algorithm DFLASH"
    " --speculative-draft-model-path z-lab/Qwen3-8B-DFlash-b16 "
)


@pytest.mark.parametrize(
    ("text", "part", "verdict"),
    [
        (PAIR + "--pp 2", "--pp 2", "wrong"),
        (PAIR + "--port 70000", "--port 70000", "wrong"),
        (PAIR + "--max-model-len 32k", "--max-model-len 32k", "fine"),
        (PAIR + "--served-model-name mine", "--served-model-name mine", "note"),
        (PAIR + "--host 0.0.0.0", "--host 0.0.0.0", "note"),
        (PAIR + "--host 0.0.0.0 --api-key k", "--host 0.0.0.0", "fine"),
        (PAIR + "--speculative-config.method dflash2", "--speculative-config.method dflash2", "wrong"),
        (PAIR + "--enable-dbo", "--enable-dbo", "wrong"),
        (PAIR + "-sc.num_speculative_tokens 0", "-sc.num_speculative_tokens 0", "wrong"),
        (PAIR + "-sc.kv_cache_dtype auto", "-sc.kv_cache_dtype auto", "fine"),
        (PAIR + "-sc.kv_cache_dtype nvfp4", "-sc.kv_cache_dtype nvfp4", "wrong"),
        (PAIR + "-sc.tensor_parallel_size 1", "-sc.tensor_parallel_size 1", "wrong"),
        (PAIR + "-tp 4 -sc.draft_tensor_parallel_size 2", "-sc.draft_tensor_parallel_size 2", "wrong"),
        (PAIR + "-sc.num_speculative_tokens_per_batch_size [[2,8,7]]",
         "-sc.num_speculative_tokens_per_batch_size [[2,8,7]]", "wrong"),
        (PAIR + "-dp 2 -sc.num_speculative_tokens_per_batch_size [[1,8,7]]",
         "-sc.num_speculative_tokens_per_batch_size [[1,8,7]]", "note"),
        (SGLANG + "--speculative-num-draft-tokens 16 --speculative-dflash-block-size 8",
         "--speculative-dflash-block-size 8", "wrong"),
        (SGLANG + "--lora-paths a=b", "--lora-paths a=b", "note"),
        (SGLANG + "--kv-cache-dtype fp8", "--kv-cache-dtype fp8", "wrong"),
        (SGLANG + "--pp 2", "--pp 2", "wrong"),
        (SGLANG + "--cuda-graph-max-bs 16", "--cuda-graph-max-bs 16", "stale"),
        (SGLANG.replace("DFLASH ", "EAGLE3 "), "--speculative-algorithm EAGLE3", "wrong"),
        (SGLANG.replace("z-lab/Qwen3-8B", "z-lab/Qwen3-4B"),
         "--speculative-draft-model-path z-lab/Qwen3-4B-DFlash-b16", "wrong"),
        (SGLANG.replace("z-lab/", "me/"),
         "--speculative-draft-model-path me/Qwen3-8B-DFlash-b16", "note"),
    ],
)  # fmt: skip
def test_a_part(said, text: str, part: str, verdict: str) -> None:
    assert said(text)[part] == verdict


def test_the_config_is_judged_key_by_key(said) -> None:
    config = '{"method": "eagle3", "model": "z-lab/Qwen3-4B-DFlash-b16", "x": 1}'
    found = said(f"vllm serve Qwen/Qwen3-8B --speculative-config '{config}'")
    assert found['"method": "eagle3"'] == "wrong"
    assert found['"model": "z-lab/Qwen3-4B-DFlash-b16"'] == "wrong"
    assert found['"x": 1'] == "wrong"
    assert found["num_speculative_tokens"] == "missing"


def test_a_key_of_no_release_is_told_whole(explain) -> None:
    report = explain(PAIR + "-sc.foo 1")
    said = {item.part: item.message for item in report.findings}
    # the word "key" with a colon would be taken for one that opens something, and masked
    assert said["-sc.foo 1"] == "vLLM knows no such key and rejects it"


def test_a_key_of_a_later_release_is_wrong(explain) -> None:
    report = explain(PAIR + "-sc.kv_cache_dtype auto", version="0.24.0")
    said = {item.part: item.message for item in report.findings}
    assert said["-sc.kv_cache_dtype auto"].startswith("only from 0.26.0 on")


def test_a_misspelt_option_gets_the_nearest(explain) -> None:
    report = explain(PAIR + "--max-num-seq-s 4 --pp 2")
    said = {item.part: item.message for item in report.findings}
    assert said["--max-num-seq-s 4"].endswith("perhaps --max-num-seqs")
    assert said["--pp 2"].endswith("perhaps --pipeline-parallel-size")
