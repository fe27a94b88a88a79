"""The entry a draft becomes: an overlay, a whole one, or a copy with what was not known filled in."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.draft_config import ReadDraft, read_draft
from dflash_deploy.errors import RegistryError, Unsupported, UsageError
from dflash_deploy.new_entry import compose
from dflash_deploy.pairing import draft_classes
from dflash_deploy.registry import load
from dflash_deploy.rules import first_release
from dflash_deploy.status import status
from dflash_deploy.target_config import ReadTarget

REGISTRY = load(user=False)
QWEN = REGISTRY.find("qwen3-8b")
KNOWN = QWEN.model.drafts[0]
CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
SHIPPED = {
    draft.id: (entry, draft) for entry in REGISTRY.entries.values() for draft in entry.model.drafts
}
PUBLISHED = [
    path for path in sorted(CONFIGS.glob("*/*/config.json"))
    if path.parent.relative_to(CONFIGS).as_posix() in SHIPPED
]  # fmt: skip
UNREAD = "RedHatAI/Qwen3-8B-speculator.dflash"


def a_draft(**changes) -> ReadDraft:
    """As read: a draft for Qwen3-8B of which only its config is known."""
    draft = msgspec.structs.replace(
        KNOWN, id="org/draft", revision=None, trained_context=None, thinking=None, licence=None,
        note=None,
    )  # fmt: skip
    return ReadDraft(msgspec.structs.replace(draft, **changes), 4096, 151936, 36, None, {})


def compose_for(entry, **changes):
    return compose(REGISTRY, a_draft(**changes), entry.id, entry, None)


def a_target(**changes) -> ReadTarget:
    target = msgspec.structs.replace(QWEN.target, thinking=None, licence=None, **changes)
    return ReadTarget(target, 36, own_code=False, origins={})


def test_a_new_draft_is_laid_over_its_target():
    made = compose_for(QWEN)
    assert (made.mode, made.file) == ("extends", "models/org/draft.yaml")
    assert made.model.extends == QWEN.id
    assert made.model.target is None
    assert made.model.floors == []
    engines = [recipe.when.engine for recipe in made.model.recipes]
    assert engines == ["vllm", "sglang", "transformers"]  # the last serves this target already
    assert {recipe.draft for recipe in made.model.recipes} == {"org/draft"}
    assert made.served["vllm"].version == "0.23.0"


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_a_published_draft_under_another_name_is_served_as_the_registry_serves_it(path):
    entry, draft = SHIPPED[path.parent.relative_to(CONFIGS).as_posix()]
    read = read_draft(
        json.loads(path.read_text()), "org/copy", draft_classes(REGISTRY.engines), revision="1" * 40
    )
    try:
        made = compose(REGISTRY, read, entry.id, entry, None)
    except RegistryError as error:
        assert "revision" in error.message  # of another draft, beside a target with its own code
        return
    for name, first in made.served.items():
        assert first == first_release(REGISTRY.engines[name], entry.target, made.draft)
    assert {*made.served} >= {
        recipe.when.engine for recipe in entry.model.recipes
        if entry.draft(recipe.draft) == draft and recipe.when.engine != "transformers"
    }  # fmt: skip


def test_a_model_is_no_draft_of_its_own():
    with pytest.raises(UsageError, match="its own draft") as refused:
        compose_for(QWEN, id=QWEN.id.lower())
    assert "--id" in str(refused.value.hint)


def test_a_head_of_its_own_is_for_vllm_alone():
    read = dataclasses.replace(a_draft(), own_head=True)
    made = compose(REGISTRY, read, QWEN.id, QWEN, None)
    assert [*made.served] == ["vllm"]
    assert "target's head" in made.refused["sglang"]


def test_tokens_that_a_draft_lacks_are_remarked_on():
    read = dataclasses.replace(a_draft(), vocab_size=151670)
    assert "151670" in compose(REGISTRY, read, QWEN.id, QWEN, None).remarks[0]
    assert compose_for(QWEN).remarks == ()


def test_the_entrys_preference_among_engines_stays():
    gemma = REGISTRY.find("gemma-4-31b")
    read = dataclasses.replace(a_draft(hidden_size=5376), reads=5376, target_layers=60, vocab_size=262144)  # fmt: skip
    made = compose(REGISTRY, read, gemma.id, gemma, None)
    assert [recipe.when.engine for recipe in made.model.recipes] == ["sglang", "vllm"]


def test_an_unknown_target_gets_an_entry_of_its_own():
    made = compose(REGISTRY, a_draft(), "Org/Tuned-8B", None, a_target())
    assert (made.mode, made.file) == ("new", "models/Org/Tuned-8B.yaml")
    assert made.model.aliases == ["tuned-8b"]
    assert made.model.target.hidden_size == 4096
    assert [recipe.name for recipe in made.model.recipes] == ["vllm", "sglang", "transformers"]
    assert made.model.evidence == []


@pytest.mark.parametrize("change", [{"gib": 60.0}, {"gib": None}, {"name": "fp8"}])
def test_the_embedded_engine_is_left_out_for_what_is_large_or_quantized(change):
    weights = [msgspec.structs.replace(QWEN.target.weights[0], **change)]
    made = compose(REGISTRY, a_draft(), "Org/Tuned", None, a_target(weights=weights))
    assert [recipe.name for recipe in made.model.recipes] == ["vllm", "sglang"]


def test_an_alias_that_names_something_else_is_not_taken():
    made = compose(REGISTRY, a_draft(), "org/Qwen3-8B", None, a_target())
    assert made.model.aliases == []


def test_a_draft_that_had_not_been_read_is_filled_in():
    made = compose_for(QWEN, id=UNREAD, format="speculators")
    assert (made.mode, made.file) == ("replaces", f"models/{QWEN.id}.yaml")
    assert [each.id for each in made.model.drafts] == [each.id for each in QWEN.model.drafts]
    assert made.model.drafts[1].unservable is None
    assert made.model.drafts[0] == KNOWN
    assert made.model.evidence == QWEN.model.evidence
    assert made.model.recipes[: len(QWEN.model.recipes)] == QWEN.model.recipes
    assert [recipe.when.engine for recipe in made.model.recipes if recipe.draft == UNREAD] == [
        "vllm"
    ]
    assert "z-lab" in made.refused["sglang"]


def unread(draft=None, target=None, **model):
    """Qwen3-8B's entry with one draft, as if some of it had never been read."""
    known = msgspec.structs.replace(KNOWN, **(draft or {}))
    changed = msgspec.structs.replace(
        QWEN.model, drafts=[known], evidence=[],
        target=msgspec.structs.replace(QWEN.target, **(target or {})),
        recipes=[each for each in QWEN.model.recipes if each.when.engine != "transformers"],
    )  # fmt: skip
    return dataclasses.replace(QWEN, model=msgspec.structs.replace(changed, **model))


def test_what_the_registry_knew_beside_the_config_stays():
    entry = unread({"block_size": None, "thinking": "on", "gated": True, "licence": "mit"})
    made = compose_for(entry, id=KNOWN.id, gated=None)
    assert (made.draft.thinking, made.draft.gated, made.draft.licence) == ("on", True, "mit")
    assert made.draft.block_size == 16


def test_an_entry_that_nothing_served_is_served_now():
    entry = unread({"block_size": None}, unservable="its config was not read", recipes=[])
    made = compose_for(entry, id=KNOWN.id, format="speculators")
    assert made.mode == "replaces"
    assert made.model.unservable is None
    assert [recipe.when.engine for recipe in made.model.recipes] == ["vllm"]


def test_a_target_that_had_not_been_read_is_filled_in():
    entry = unread(target={"architecture": "unknown", "hidden_size": None, "layers": []})
    made = compose(REGISTRY, a_draft(), entry.id, entry, a_target(family="other"))
    assert made.mode == "replaces"
    assert made.model.target == QWEN.target
    assert [each.id for each in made.model.drafts] == [KNOWN.id, "org/draft"]


def test_a_recipe_that_serves_the_draft_already_is_not_doubled():
    entry = unread({"layers": [], "target_layer_ids": None})
    made = compose_for(entry, id=KNOWN.id)
    assert made.model.recipes == entry.model.recipes
    assert made.model.drafts[0].layers == KNOWN.layers


def test_sliding_layers_need_later_releases():
    sliding = [msgspec.structs.replace(KNOWN.layers[0], kind="sliding", window=2048)]
    made = compose_for(QWEN, layers=sliding)
    assert Version(made.served["vllm"].version) >= Version("0.25")
    assert Version(made.served["sglang"].version) >= Version("0.5.14")


def test_a_mask_word_is_nothing_for_vllm():
    made = compose_for(QWEN, mask_token_id=None)
    assert [recipe.when.engine for recipe in made.model.recipes] == ["sglang"]


def test_a_new_pair_is_untested(tmp_path):
    made = compose(REGISTRY, a_draft(), "Org/Tuned-8B", None, a_target())
    entry = dataclasses.replace(QWEN, id="Org/Tuned-8B", model=made.model, below=None)
    assert {status(entry, recipe) for recipe in made.model.recipes} == {"untested"}


# --- refusals


def test_a_pair_that_does_not_match_is_refused_with_all_reasons():
    read = dataclasses.replace(a_draft(), reads=5120, target_layers=64)
    with pytest.raises(Unsupported) as caught:
        compose(REGISTRY, read, QWEN.id, QWEN, None)
    assert "5120" in caught.value.message
    assert "64 layers" in caught.value.message


def test_a_class_that_no_engine_serves_is_refused_with_what_each_says():
    with pytest.raises(Unsupported) as caught:
        compose(REGISTRY, a_draft(), "o/t", None, a_target(architecture="OtherForCausalLM"))
    assert "vllm: " in caught.value.detail
    assert "sglang: " in caught.value.detail
    assert "OtherForCausalLM" in caught.value.detail


def test_an_entry_that_could_not_stand_is_not_made():
    with pytest.raises(RegistryError, match="hub id"):
        compose(REGISTRY, a_draft(), "no-hub-id", None, a_target())
