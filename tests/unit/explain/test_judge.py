"""Variables, images, programs; and what is missing."""

from __future__ import annotations

import pytest

from tests.unit.explain.test_flags import PAIR, SGLANG

IN_IMAGE = PAIR.removeprefix("vllm serve ")


@pytest.mark.parametrize(
    ("text", "part", "verdict"),
    [
        ("NCCL_DEBUG=INFO " + PAIR, "NCCL_DEBUG=INFO", "fine"),
        ("HF_TOKEN=$HF_TOKEN " + PAIR, "HF_TOKEN=$...", "fine"),
        ("TOKENIZERS_PARALLELISM=0 " + PAIR, "TOKENIZERS_PARALLELISM=0", "fine"),
        ("export SGLANG_ENABLE_SPEC_V2=1\n" + SGLANG, "SGLANG_ENABLE_SPEC_V2=1", "stale"),
        ("VLLM_ATTENTION_BACKEND=FLASHINFER " + PAIR, "VLLM_ATTENTION_BACKEND=FLASHINFER", "stale"),
        ("VLLM_USE_V1=1 " + PAIR, "VLLM_USE_V1=1", "stale"),
        (SGLANG, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1", "missing"),
        ("docker run ghcr.io/z-lab/vllm-openai:gemma4-dflash-cu130 " + IN_IMAGE,
         "ghcr.io/z-lab/vllm-openai:gemma4-dflash-cu130", "stale"),
        ("docker run vllm/vllm-openai " + IN_IMAGE, "vllm/vllm-openai", "note"),
        ("docker run vllm/vllm-openai:v0.33.0 " + IN_IMAGE, "vllm/vllm-openai:v0.33.0", "fine"),
        ("docker run vllm/vllm-openai:v0.33.0 " + PAIR, "vllm serve", "wrong"),
        (SGLANG.replace("sglang serve", "python3 -u -m sglang.launch_server"),
         "python -m sglang.launch_server", "stale"),
        (PAIR.replace("vllm serve", "python -m vllm.entrypoints.openai.api_server --model"),
         "python -m vllm.entrypoints.openai.api_server", "note"),
    ],
)  # fmt: skip
def test_a_part(said, text: str, part: str, verdict: str) -> None:
    assert said(text)[part] == verdict


def test_an_entrypoint_doubles_nothing(said) -> None:
    assert "wrong" not in said("docker run --entrypoint vllm vllm/vllm-openai:v0.33.0 "
                               + PAIR.removeprefix("vllm ")).values()  # fmt: skip


def test_what_is_missing(said) -> None:
    found = said(PAIR)
    wanted = ("revision", "--default-chat-template-kwargs", "--max-num-seqs",
              "--tool-call-parser hermes", "--reasoning-parser qwen3")  # fmt: skip
    assert {found[part] for part in wanted} == {"missing"}
    assert said(PAIR + "--tool-call-parser hermes")["--enable-auto-tool-choice"] == "missing"


def test_the_mode_that_was_said_wrongly(said) -> None:
    part = '--default-chat-template-kwargs {"enable_thinking": true}'
    assert said(f"{PAIR} {part.replace('{', chr(39) + '{')}'")[part] == "wrong"


def test_a_release_that_cannot_be_told_the_mode(said) -> None:
    found = said(SGLANG, version="0.5.15.post1")
    assert "--default-chat-template-kwargs" not in found


def test_a_config_that_is_no_json_is_there_all_the_same(said) -> None:
    found = said("vllm serve Qwen/Qwen3-8B --speculative-config {method:dflash}")
    assert found["--speculative-config {method:dflash}"] == "wrong"
    assert "--speculative-config" not in found


def test_what_is_wrong_with_json(explain) -> None:
    report = explain('vllm serve Qwen/Qwen3-8B --speculative-config \'{"method": "dflash",}\'')
    (wrong,) = [item for item in report.findings if item.verdict == "wrong"]
    assert wrong.message.startswith("this is no JSON: ")
    assert ", at character 2" in wrong.message
    bare = explain("vllm serve Qwen/Qwen3-8B --speculative-config '{method: dflash}'")
    assert any("between single quotes" in item.message for item in bare.findings)


def test_an_image_without_an_entry_point_of_its_own_doubles_nothing(said) -> None:
    assert "vllm serve" not in said("docker run nvcr.io/nvidia/pytorch:25.03-py3 " + PAIR)
