"""Why a draft may not be accepted: what is known of a plan comes first, each with a command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from dflash_deploy.errors import DFlashError
from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request
from dflash_deploy.suspects import Suspect

SHIPPED = load(user=False)
CARDS = parse("H200:8", SHIPPED.gpus)
OVERLAY = """
extends: Qwen/Qwen3-8B
drafts:
  - {id: own/draft-q4, kind: dflash, architecture: DFlashDraftModel, block_size: 8, quantization: awq,
     layers: [{kind: full, count: 5, heads: 32, kv_heads: 8, head_dim: 128}], hidden_size: 4096,
     target_layer_ids: [1, 9, 17, 25, 33], mask_token_id: 151669, context: 40960,
     trained_context: null, thinking: null, parameters: null, gib: null, licence: null}
recipes:
  - {name: own, when: {engine: vllm}, draft: own/draft-q4, why: mine, source: me}
"""


def suspects(model: str, engine: str = "vllm", registry=SHIPPED, **options) -> tuple[Suspect, ...]:
    return make_plan(registry, Request(model=model, engine=engine, **options), CARDS).suspects


def words(suspect: Suspect) -> list[str]:
    return shlex.split(suspect.remedy)


def test_a_plan_as_published_has_no_particular_suspect():
    (only,) = suspects("gpt-oss-20b")

    assert "something else than was planned" in only.cause
    assert only.remedy == "dflash plan gpt-oss-20b --engine vllm --why"


def test_the_other_thinking_mode_comes_first_and_goes_alone():
    said = ("--default-chat-template-kwargs", '{"enable_thinking": true}', "--seed", "7")
    first = suspects("qwen3-8b", engine_args=said)[0]

    assert first.cause == "thinking is on, and z-lab/Qwen3-8B-DFlash-b16 was trained with it off"
    assert words(first)[-3:] == ["--", "--seed", "7"]


def test_an_fp8_cache_is_tried_in_bf16_and_all_else_is_kept():
    found = suspects("qwen3-8b", kv_dtype="fp8", port=9000, context=8192, host="0.0.0.0")

    assert "fp8" in found[0].cause
    assert found[0].remedy == (
        "dflash serve qwen3-8b --engine vllm --host 0.0.0.0 --port 9000 --context 8192"
        " --kv-dtype bf16"
    )


def test_an_fp8_cache_in_the_engines_words_is_taken_back():
    (found, *_) = suspects("qwen3-8b", engine_args=("--kv-cache-dtype", "fp8"))

    assert found.remedy == "dflash serve qwen3-8b --engine vllm --kv-dtype bf16"


def test_a_rule_of_the_engine_that_lowers_acceptance_is_named():
    first = suspects("gemma-4-31b")[0]

    assert "scales Gemma's embeddings" in first.cause
    assert first.remedy == "dflash serve gemma-4-31b --engine sglang"


def test_a_rule_that_a_later_release_lifts_names_that_release():
    first = suspects("qwen3.5-27b", "sglang", engine_version="0.5.14")[0]

    assert "corrected in 0.5.18" in first.cause
    assert first.remedy == (
        "dflash engine install sglang==0.5.18"
        " && dflash serve qwen3.5-27b --engine sglang --engine-version 0.5.18"
    )


def test_a_release_that_nobody_here_knows():
    first = suspects("gpt-oss-20b", engine_version="99.0.0")[0]

    assert "newer than any release known here" in first.cause
    assert "--engine-version 0.33.0" in first.remedy


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (("--attention-backend", "TRITON_ATTN"), "attention backend said by hand"),
        (("--revision", "a" * 40), "a revision said by hand"),
        (("--enable-lora",), "ignores LoRA adapters"),
    ],
)
def test_what_was_said_by_hand_is_left_out(said, cause):
    found = next(s for s in suspects("gpt-oss-20b", engine_args=said) if cause in s.cause)

    assert found.remedy == "dflash serve gpt-oss-20b --engine vllm"


def test_a_quantized_draft_gives_way_to_one_in_bf16(tmp_path: Path):
    file = tmp_path / "models/Qwen/Qwen3-8B.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(OVERLAY)

    found = suspects("own/draft-q4", registry=load(tmp_path, user=False))

    assert found[0].cause.startswith("own/draft-q4 is quantized (awq)")
    assert found[0].remedy == "dflash serve z-lab/Qwen3-8B-DFlash-b16 --engine vllm"
    assert any("no commit of own/draft-q4" in suspect.cause for suspect in found)
    unknown = next(s for s in found if "which mode the draft was trained for" in s.cause)
    assert words(unknown)[-2:] == ["--default-chat-template-kwargs", '{"enable_thinking": false}']


@pytest.mark.parametrize("name", list(SHIPPED.entries))
def test_every_plan_has_a_suspect_with_a_command(name):
    for engine in {recipe.when.engine for recipe in SHIPPED.entries[name].model.recipes}:
        try:
            found = suspects(name, engine, trust_remote_code=True)
        except DFlashError:  # needs a commit, or other cards
            continue
        assert found
        assert all(suspect.remedy.startswith("dflash ") for suspect in found)
