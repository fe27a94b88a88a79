"""The right command keeps what the user decided, and drops what is refused."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UnknownModel
from dflash_deploy.plan import Plan
from tests.unit.explain.test_flags import PAIR, SGLANG


def words(report) -> str:
    assert isinstance(report.right, Plan), report.right
    return report.right_text.replace(" \\\n  ", " ")


def test_own_values_stay(explain) -> None:
    text = words(explain(
        "NCCL_DEBUG=INFO " + PAIR + "--gpu-memory-utilization 0.8 --compilation-config.mode 3"
        " --api-key k --max-model-len 16k"
    ))  # fmt: skip
    assert text.startswith("NCCL_DEBUG=INFO ")
    assert "--gpu-memory-utilization 0.8" in text
    assert "--compilation-config.mode 3" in text
    assert 'VLLM_API_KEY="$DFLASH_API_KEY"' in text
    assert "--max-model-len 16000" in text


def test_a_cache_dtype_stays_as_it_was_said(explain) -> None:
    for dtype in ("fp8_e5m2", "fp8_per_token_head"):
        assert f"--kv-cache-dtype {dtype}" in words(explain(PAIR + f"--kv-cache-dtype {dtype}"))
    assert "--kv-cache-dtype fp8_e4m3" in words(explain(SGLANG + " --kv-cache-dtype fp8"))
    assert "kv-cache-dtype" not in words(explain(PAIR + "--kv-cache-dtype nvfp4"))


def test_a_type_of_the_weights_other_than_their_own_stays(explain) -> None:
    assert "--dtype float16" in words(explain(PAIR + "--dtype float16"))
    assert "--dtype" not in words(explain(PAIR + "--dtype bfloat16"))


def test_a_share_of_memory_stays_also_where_another_was_published(explain) -> None:
    gpt = SGLANG.replace("Qwen/Qwen3-8B", "openai/gpt-oss-20b")
    gpt = gpt.replace("z-lab/Qwen3-8B-DFlash-b16", "z-lab/gpt-oss-20b-DFlash")
    assert "--mem-fraction-static 0.75" in words(explain(gpt))
    assert "--mem-fraction-static 0.8" in words(explain(gpt + " --mem-fraction-static 0.8"))


def test_the_block_that_was_said_stays(explain) -> None:
    assert explain(PAIR.replace("tokens 15", "tokens 5")).right.block_size == 6
    assert explain(PAIR.replace("tokens 15", "tokens 31")).right.block_size == 16
    assert explain(PAIR.replace("tokens 15", "tokens 0")).right.block_size == 16


def test_further_settings_of_the_draft_stay(explain) -> None:
    text = words(explain(PAIR + "-sc.num_speculative_tokens_per_batch_size [[1,8,15],[9,64,7]]"
                         " -sc.kv_cache_dtype auto -sc.blocks 3"))  # fmt: skip
    assert '"num_speculative_tokens_per_batch_size": [[1, 8, 15], [9, 64, 7]]' in text
    assert '"kv_cache_dtype": "auto"' in text
    assert "blocks" not in text
    wrong = explain(PAIR + "-sc.num_speculative_tokens_per_batch_size [[2,8,15]]")
    assert "per_batch_size" not in words(wrong)


def test_own_commits_stay_where_the_registry_has_none(explain) -> None:
    commit = "c" * 40
    text = words(explain(
        f"vllm serve moonshotai/Kimi-K2.7-Code --trust-remote-code --revision {commit} -tp 8"
        " -sc.method dflash -sc.model nvidia/Kimi-K2.7-Code-DFlash -sc.num_speculative_tokens 7"
        f" -sc.revision {commit}"
    ))  # fmt: skip
    assert text.count(commit) == 2


def test_what_a_rule_refuses_goes(explain) -> None:
    report = explain(PAIR + "-tp 3 --enable-dbo --port 70000")
    assert "--enable-dbo" not in words(report)
    assert (report.right.tensor_parallel, report.right.port) == (1, 8000)


def test_a_release_that_cannot_gives_way(explain) -> None:
    hybrid = SGLANG.replace("Qwen3-8B-DFlash-b16", "Qwen3.5-9B-DFlash").replace(
        "Qwen3-8B", "Qwen3.5-9B"
    )
    report = explain(hybrid.replace("serve", "serve --mamba-scheduler-strategy extra_buffer"),
                     version="0.5.9")  # fmt: skip
    assert (report.version, report.right.version) == ("0.5.9", "0.5.23")
    assert "--mamba-radix-cache-strategy extra_buffer" in words(report)


def test_a_folder_is_served_with_the_drafts_entry(explain) -> None:
    text = words(explain(PAIR.replace("Qwen/Qwen3-8B", "/models/q8", 1)))
    assert "vllm serve /models/q8" in text


def test_a_container_is_reached_where_it_was_published(explain) -> None:
    image = "docker run -p 9000:8000 -e HF_HOME=/data -e NCCL_DEBUG=INFO vllm/vllm-openai:v0.33.0 "
    report = explain(image + PAIR.removeprefix("vllm serve ") + "--host 0.0.0.0")
    assert (report.right.port, report.right.host) == (9000, "127.0.0.1")
    both = explain(image + PAIR.removeprefix("vllm serve ") + "--port 8000")
    assert both.right.port == 9000
    assert "/data" not in words(report)
    assert "--env NCCL_DEBUG=INFO" in words(report)


def test_cards_that_are_too_few_are_told_and_the_right_command_takes_more(explain) -> None:
    command = "vllm serve Qwen/Qwen3.5-27B -tp 1 " + PAIR.partition("Qwen3-8B ")[2].replace(
        "Qwen3-8B-DFlash-b16", "Qwen3.5-27B-DFlash")  # fmt: skip
    report = explain(command, gpu="RTX-4090:4")
    (told,) = [item for item in report.findings if item.part == "the cards"]
    assert told.message.startswith("qwen3.5-27b does not fit 4 x RTX-4090: weights 51.0")
    assert report.right.tensor_parallel == 4
    assert not [item for item in explain(command, gpu="H200").findings if item.part == "the cards"]


def test_what_no_plan_decides_stays(explain) -> None:
    text = words(explain(PAIR + "-dp 2 --no-enable-prefix-caching --max-num-seqs 64"))
    assert "--data-parallel-size 2" in text
    assert "--no-enable-prefix-caching" in text


def test_code_from_elsewhere_is_left_out_and_consent_asked_for(explain) -> None:
    report = explain(
        "vllm serve moonshotai/Kimi-K2.5 -tp 8 --code-revision main --tokenizer evil/tok"
        " --middleware evil.module --speculative-config.method dflash"
        " --speculative-config.model z-lab/Kimi-K2.5-DFlash"
        " --speculative-config.num_speculative_tokens 7",
        gpu="B200:8",
    )
    assert not {"--code-revision", "--tokenizer", "--middleware"} & set(report.right.argv)
    verdicts = {item.part: item.verdict for item in report.findings}
    assert verdicts["--trust-remote-code"] == "missing"
    assert verdicts["--tokenizer evil/tok"] == "note"


@pytest.mark.parametrize(
    ("target", "draft", "hint"),
    [
        ("me/own", "me/draft", "dflash registry add me/draft --target me/own"),
        ("unsloth/gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash",
         "dflash registry add z-lab/gpt-oss-20b-DFlash --target unsloth/gpt-oss-20b"),
        ("/data/q8", "/data/draft", "dflash registry add /data/draft"),
    ],
)  # fmt: skip
def test_a_pair_that_is_not_known_can_be_made_so(explain, target, draft, hint) -> None:
    command = f"vllm serve {target} --spec-method dflash --spec-model {draft} --spec-tokens 7"
    report = explain(command)
    assert isinstance(report.right, UnknownModel)
    assert report.right.hint == hint
    alone = explain("vllm serve me/own").right
    assert "registry add" not in alone.hint
