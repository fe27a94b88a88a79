"""What rules and plans say with our own options reaches the user in the engine's words."""

from __future__ import annotations

import re

import pytest

from tests.unit.explain.test_flags import PAIR, SGLANG

HYBRID = PAIR.replace("Qwen3-8B-DFlash-b16", "Qwen3.5-27B-DFlash").replace(
    "Qwen3-8B", "Qwen3.5-27B"
)
OURS = re.compile(r"--(?:kv-dtype|tensor-parallel|concurrency|context|engine)(?![\w-])|after `--`")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (PAIR + "--kv-cache-dtype nvfp4", "(--kv-cache-dtype fp8)"),
        (SGLANG + " --kv-cache-dtype nvfp4", "(--kv-cache-dtype fp8_e4m3)"),
        (HYBRID, "a smaller num_speculative_tokens, or --no-enable-prefix-caching"),
        (PAIR + "--block-size 7", "leave --block-size out"),
        (PAIR + "--pipeline-parallel-size 8 -tp 8", "what is said needs 64 cards"),
    ],
)
def test_of_a_rule(explain, command: str, says: str) -> None:
    messages = [item.message for item in explain(command).findings]
    assert any(says in message for message in messages), messages
    assert not any(map(OURS.search, messages))


def test_of_a_recipe_for_fewer_requests_than_the_server_admits(explain) -> None:
    said = "--max-num-seqs says how many you expect"
    assert any(said in item.message for item in explain(HYBRID, "H200").findings)
    # a smaller card admits no more than that recipe is for
    assert not any(said in item.message for item in explain(HYBRID, "H100").findings)


@pytest.mark.parametrize(
    ("command", "gpu", "hint"),
    [
        (SGLANG, "RTX-4090", "--chunked-prefill-size 2048"),
        (SGLANG.replace("Qwen3-8B-DFlash-b16", "Qwen3.5-27B-DFlash").replace(
            "Qwen3-8B", "Qwen3.5-27B"), "A100", "--speculative-num-draft-tokens 8"),
    ],
)  # fmt: skip
def test_of_what_has_no_room_and_it_helps(explain, command: str, gpu: str, hint: str) -> None:
    assert explain(command, gpu).hint == hint
    assert explain(f"{command} {hint}", gpu).right_text


def test_cards_are_an_option_of_explain_too(explain) -> None:
    large = PAIR.replace("z-lab/Qwen3-8B-DFlash-b16", "z-lab/gpt-oss-120b-DFlash")
    large = large.replace("Qwen/Qwen3-8B", "openai/gpt-oss-120b")
    assert explain(large, "L4").hint == "--gpu L4:4"
    alone = explain("docker model run hf.co/z-lab/gpt-oss-120b-DFlash", "L4")
    assert alone.hint == "dflash plan z-lab/gpt-oss-120b-DFlash --engine vllm --gpu L4:4"
