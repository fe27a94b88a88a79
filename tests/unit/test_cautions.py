"""What an entry warns of is said for the draft it speaks of, wherever a pair is spoken of."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pins import pins

from dflash_deploy.choose import intended_draft
from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import Card, Hardware, parse
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import Registry, load
from dflash_deploy.request import Request
from dflash_deploy.schema import Caution, When
from dflash_deploy.validate import problems

SHIPPED = load(user=False)
CARDS = parse("H200:8", SHIPPED.gpus)
KIMI = "z-lab/Kimi-K2.6-DFlash"
NVIDIA = "nvidia/Kimi-K2.6-DFlash"
OVERLAY = """
extends: Qwen/Qwen3-8B
drafts:
  - {id: own/qwen3-8b-dflash, kind: dflash, architecture: DFlashDraftModel, block_size: 8,
     layers: [{kind: full, count: 5, heads: 32, kv_heads: 8, head_dim: 128}], hidden_size: 4096,
     target_layer_ids: [1, 9, 17, 25, 33], mask_token_id: 151669, context: 40960,
     trained_context: null, thinking: "on", parameters: null, gib: null, licence: null}
recipes:
  - {name: own, when: {engine: vllm}, draft: own/qwen3-8b-dflash, why: mine, source: me}
cautions:
  - {draft: own/qwen3-8b-dflash, message: "half trained", source: me}
  - {message: "slow disk here", source: me}
"""


def warnings(registry: Registry, model: str, engine: str = "vllm", cards: Hardware = CARDS) -> str:
    entry = registry.find(model)
    draft = intended_draft(entry, Request(model=model, engine=engine))
    words = pins(registry, entry, draft, engine, registry.engines[engine].releases[-1].version)
    request = Request(model=model, engine=engine, trust_remote_code=True, engine_args=words)
    return "\n".join(make_plan(registry, request, cards).warnings)


def test_each_draft_of_a_target_gets_its_own_sentences() -> None:
    about = {KIMI: "no run of this draft on a released vLLM", NVIDIA: "stayed with EAGLE-3"}
    for draft, other in ((KIMI, NVIDIA), (NVIDIA, KIMI)):
        said = warnings(SHIPPED, draft)
        assert about[draft] in said
        assert about[other] not in said


def test_a_draft_of_ones_own_hears_nothing_of_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "models" / "own" / "qwen3-8b.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(OVERLAY, encoding="utf-8")
    registry = load(tmp_path, user=False)
    own, shipped = warnings(registry, "own/qwen3-8b-dflash"), warnings(registry, "qwen3-8b")
    assert ("half trained" in own, "slow disk here" in own) == (True, True)
    assert "trained with thinking off" not in own
    assert ("half trained" in shipped, "slow disk here" in shipped) == (False, True)
    assert "trained with thinking off" in shipped


@pytest.mark.parametrize("draft", [KIMI, NVIDIA])
def test_a_published_command_hears_of_the_draft_it_names(draft: str) -> None:
    config = json.dumps({"method": "dflash", "model": draft, "num_speculative_tokens": 7})
    command = f"vllm serve moonshotai/Kimi-K2.6 --trust-remote-code --speculative-config '{config}'"
    (report,) = reports(from_text(command), SHIPPED, None, CARDS)
    said = "\n".join(item.message for item in report.findings)
    assert ("no run of this draft" in said) == (draft == KIMI)
    assert ("stayed with EAGLE-3" in said) == (draft == NVIDIA)


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_a_sentence_about_a_draft_says_which(entry) -> None:
    of_one = re.compile(r"\b(the|this|its) draft\b(?! for)|\bpair\b|\bits card\b")
    for caution in entry.model.cautions:
        assert caution.draft or not of_one.search(caution.message), caution.message


@pytest.mark.parametrize(
    ("model", "engine", "cards", "words"),
    [
        ("qwen3.8-27b", "sglang", "RTX-5090:4", "on an RTX 5090"),
        ("qwen3.8-27b", "vllm", "A100", "Xid 31"),
        ("qwen3.6-27b", "vllm", "RTX-3090:8", "RTX 3090"),
        ("qwen3-coder-30b", "sglang", "RTX-PRO-6000:2", "saw no gain"),
        ("laguna-xs-2.1", "sglang", "B200:4", "on Blackwell cards"),
    ],
)
def test_a_sentence_about_a_card_is_said_on_that_card_or_an_unknown_one(
    model: str, engine: str, cards: str, words: str
) -> None:
    strange = Hardware((Card("Anything", None, 0.0),) * 8, "given")
    for hardware in (parse(cards, SHIPPED.gpus), Hardware(), strange):
        assert words in warnings(SHIPPED, model, engine, hardware)
    assert words not in warnings(SHIPPED, model, engine, CARDS)


def test_cards_of_which_one_is_meant_hear_of_it() -> None:
    mixed = Hardware(
        (*parse("RTX-PRO-6000", SHIPPED.gpus).cards, *parse("GB10", SHIPPED.gpus).cards), "given"
    )
    assert "saw no gain" in warnings(SHIPPED, "qwen3-coder-30b", "sglang", mixed)


def test_a_published_command_hears_of_the_cards_it_is_for() -> None:
    draft = "z-lab/Qwen3.8-27B-DFlash2"
    command = "sglang serve --model-path Qwen/Qwen3.8-27B --speculative-algorithm DFLASH \\\n"
    command += f"--speculative-draft-model-path {draft} --tp-size 4"
    for cards, heard in (("RTX-5090:4", True), ("H200:4", False)):
        hardware = parse(cards, SHIPPED.gpus)
        (report,) = reports(from_text(command), SHIPPED, None, hardware)
        said = "\n".join(item.message for item in report.findings)
        assert ("on an RTX 5090" in said) == heard


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_a_sentence_about_a_card_or_another_engine_says_which(entry) -> None:
    of_cards = re.compile(r"\bon (an? )?(RTX|[ABH]\d00|GB\d+|DGX|Blackwell|Hopper|sm\d)")
    for caution in entry.model.cautions:
        assert caution.cards or not of_cards.search(caution.message), caution.message
        assert "llama.cpp" not in caution.message
        for engine in ("vLLM", "SGLang"):
            assert caution.engine or engine not in caution.message, caution.message


def test_a_card_that_nobody_knows_is_a_mistake() -> None:
    entry = SHIPPED.find("qwen3.8-27b")
    caution = Caution(cards=["RTX-5090", "RTX 5091"], message="hot", source="me")
    model = msgspec.structs.replace(entry.model, cautions=[caution])
    found = problems([replace(entry, model=model)], SHIPPED.engines, SHIPPED.gpus)
    assert [problem.message for problem in found] == ["unknown card `RTX 5091`"]


def test_a_recipe_for_a_card_that_nobody_knows_is_a_mistake() -> None:
    entry = SHIPPED.find("qwen3-8b")
    recipe = msgspec.structs.replace(
        entry.model.recipes[0],
        when=When(engine="vllm", version=">=0.26.0", cards=["H200", "hopper"]),
    )
    model = msgspec.structs.replace(entry.model, recipes=[recipe, *entry.model.recipes[1:]])
    found = problems([replace(entry, model=model)], SHIPPED.engines, SHIPPED.gpus)
    assert [problem.message for problem in found] == ["unknown card `hopper`"]
