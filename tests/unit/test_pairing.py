"""Which target a draft is for: told, known, named by its config, or asked; never guessed."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from dflash_deploy.draft_config import ReadDraft
from dflash_deploy.errors import UnknownModel, Unsupported, UsageError
from dflash_deploy.pairing import (
    candidates,
    check_known,
    draft_classes,
    find_target,
    spelled,
    wants_config,
)
from dflash_deploy.registry import load

REGISTRY = load(user=False)
QWEN, GEMMA = REGISTRY.find("qwen3-8b"), REGISTRY.find("gemma-4-31b")
KNOWN = QWEN.model.drafts[0]
UNREAD = "RedHatAI/Qwen3-8B-speculator.dflash"


def a_draft(**changes) -> ReadDraft:
    """One for Qwen3-8B that nobody knows."""
    draft = msgspec.structs.replace(KNOWN, id="org/draft")
    read = ReadDraft(draft, 4096, 151936, 36, None, {})
    return dataclasses.replace(read, **changes)


def test_a_target_that_is_named_is_found_by_any_name():
    for name in ("qwen3-8b", "Qwen/Qwen3-8B", "qwen/qwen3-8b"):
        assert find_target(REGISTRY, a_draft(), name) == (QWEN.id, QWEN)


def test_a_hub_id_that_no_registry_knows_is_taken_as_it_is():
    assert find_target(REGISTRY, a_draft(), "Org/Tuned") == ("Org/Tuned", None)


def test_a_word_that_nothing_knows_gets_a_suggestion():
    with pytest.raises(UnknownModel) as caught:
        find_target(REGISTRY, a_draft(), "qwen3-8")
    assert "qwen3-8b" in caught.value.hint


def test_the_config_may_name_it_and_the_user_knows_better():
    read = a_draft(verifier="google/gemma-4-31B-it")
    assert find_target(REGISTRY, read, None) == (GEMMA.id, GEMMA)
    assert find_target(REGISTRY, read, "qwen3-8b")[0] == QWEN.id


def test_a_known_draft_has_its_target_and_no_other():
    draft = msgspec.structs.replace(KNOWN, id=UNREAD)
    assert find_target(REGISTRY, a_draft(draft=draft), None) == (QWEN.id, QWEN)
    for other in ("gemma-4-31b", "org/new"):
        with pytest.raises(UsageError, match="is a draft of Qwen/Qwen3-8B"):
            find_target(REGISTRY, a_draft(draft=draft), other)


def test_a_draft_is_no_target():
    with pytest.raises(UsageError, match="is a draft itself") as caught:
        find_target(REGISTRY, a_draft(), KNOWN.id)
    assert caught.value.hint == "--target Qwen/Qwen3-8B"


def test_without_a_name_those_that_fit_are_offered():
    with pytest.raises(UsageError) as caught:
        find_target(REGISTRY, a_draft(), None)
    assert "Qwen/Qwen3-8B would fit" in caught.value.message
    assert caught.value.hint == "--target Qwen/Qwen3-8B"
    with pytest.raises(UsageError) as caught:
        find_target(REGISTRY, a_draft(reads=7), None)
    assert "OWNER/NAME" in caught.value.hint


def test_a_target_of_unknown_size_is_no_candidate():
    entry = with_target(hidden_size=None)
    registry = dataclasses.replace(REGISTRY, entries={QWEN.id: entry})
    assert candidates(registry, a_draft()) == []


def test_what_is_served_already_needs_no_adding():
    with pytest.raises(UsageError) as caught:
        check_known(QWEN, KNOWN.id)
    assert caught.value.hint == f"dflash plan {KNOWN.id}"
    check_known(QWEN, UNREAD)
    check_known(QWEN, "org/draft")
    check_known(None, KNOWN.id)


def test_what_is_known_not_to_work_is_refused_with_the_reason():
    with pytest.raises(Unsupported, match="DSpark"):
        check_known(QWEN, "deepseek-ai/dflash_qwen3_8b_block7")


@pytest.mark.parametrize(
    "unread", [{"block_size": None}, {"layers": []}, {"target_layer_ids": None}], ids=str
)
def test_a_draft_whose_config_was_not_read_may_be_added(unread):
    drafts = [msgspec.structs.replace(KNOWN, **unread)]
    model = msgspec.structs.replace(QWEN.model, drafts=drafts)
    check_known(dataclasses.replace(QWEN, model=model), KNOWN.id)


def test_a_known_draft_may_make_an_unserved_entry_servable():
    model = msgspec.structs.replace(QWEN.model, unservable="its class was not read", recipes=[])
    check_known(dataclasses.replace(QWEN, model=model), KNOWN.id)


def test_entries_that_ask_for_it_can_be_completed():
    asking = [
        (entry, draft) for entry in REGISTRY.entries.values() for draft in entry.model.drafts
        if "registry add" in f"{draft.note} {entry.model.unservable}"
        and not (draft.unservable and draft.block_size)
    ]  # fmt: skip
    for entry, draft in asking:
        check_known(entry, draft.id)


def with_target(**changes):
    target = msgspec.structs.replace(QWEN.target, **changes)
    return dataclasses.replace(QWEN, model=msgspec.structs.replace(QWEN.model, target=target))


def test_the_targets_config_is_read_where_it_says_something_new():
    assert wants_config(None, given=False)
    assert wants_config(with_target(architecture="unknown", layers=[]), given=False)
    assert not wants_config(QWEN, given=False)
    assert not wants_config(with_target(layers=[]), given=False)
    assert wants_config(with_target(layers=[]), given=True)
    with pytest.raises(UsageError, match="not needed"):
        wants_config(QWEN, given=True)


def test_ids_are_spelled_as_the_registry_does():
    assert spelled(REGISTRY, UNREAD.lower()) == UNREAD
    assert spelled(REGISTRY, "Org/New") == "Org/New"


def test_classes_come_from_the_engines():
    assert {"DFlashDraftModel", "DFlash2DraftModel"} <= draft_classes(REGISTRY.engines)
    assert "LlamaForCausalLM" not in draft_classes(REGISTRY.engines)


STAND_IN = REGISTRY.find("kimi-k3")


def test_an_entry_that_stands_in_for_a_target_is_no_target():
    read = a_draft(draft=msgspec.structs.replace(KNOWN, id=STAND_IN.id))
    assert find_target(REGISTRY, read, "moonshotai/Kimi-K3") == ("moonshotai/Kimi-K3", None)
    named = dataclasses.replace(read, verifier="moonshotai/Kimi-K3")
    assert find_target(REGISTRY, named, None) == ("moonshotai/Kimi-K3", None)
    with pytest.raises(UsageError, match="not known here") as caught:
        find_target(REGISTRY, read, "kimi-k3")
    assert caught.value.hint == "--target OWNER/NAME, its hub id"
