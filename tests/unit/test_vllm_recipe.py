"""Recipes of vllm-project/recipes: read, and written so that they read back the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dflash_deploy.errors import RegistryError, Unsupported
from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.render.vllm_recipe import render
from dflash_deploy.request import Request
from dflash_deploy.vllm_recipe import Imported, as_recipe, dflash_modes, imported
from dflash_deploy.yaml_source import read_yaml

REGISTRY = load(user=False)
RECIPES = Path(__file__).parents[1] / "fixtures" / "recipes"


def document(name: str) -> Any:
    return read_yaml((RECIPES / f"{name}.yaml").read_text(encoding="utf-8"), name)


def said(made: Imported) -> str:
    return "\n".join(map(str, made.left_out))


def dflash(recipe: Any, **config: Any) -> Any:
    """A recipe of Qwen3.8-27B whose DFlash mode says this besides."""
    config = {"method": "dflash", "model": "z-lab/Qwen3.8-27B-DFlash2",
              "num_speculative_tokens": 7} | config  # fmt: skip
    mode = recipe["features"]["spec_decoding"]["modes"]["dflash"]
    mode["args"] = ["--speculative-config", json.dumps(config)]
    return recipe


def test_a_mode_among_several() -> None:
    made = imported(document("modes"), REGISTRY, "modes.yaml")
    (recipe,) = made.model.recipes
    assert made.model.extends == "Qwen/Qwen3.8-27B"
    assert (recipe.name, recipe.draft, recipe.block_size) == (
        "imported-dflash", "z-lab/Qwen3.8-27B-DFlash2", 8,
    )  # fmt: skip
    assert (recipe.max_concurrency, recipe.flags) == (32, ["--language-model-only"])
    assert made.model.evidence == []
    assert "needs 0.28.0" in said(made)


def test_the_arguments_beside_a_single_mode() -> None:
    made = imported(document("plain"), REGISTRY, "plain.yaml")
    (recipe,) = made.model.recipes
    assert (recipe.block_size, recipe.flags) == (16, ["--moe-backend=triton"])
    left = said(made)
    assert "--trust-remote-code: remote code" in left
    assert "--download-dir /etc: a plan decides it, or an overlay may not set it" in left


@pytest.mark.parametrize("flag", ["--speculative-config", "--speculative_config", "-sc"])
@pytest.mark.parametrize("whole", [(), ("-sc", '{"method": "dflash"}')])
def test_a_config_key_by_key(flag: str, whole: tuple[str, ...]) -> None:
    recipe = document("modes")
    keys = {"method": "dflash", "model": "z-lab/Qwen3.8-27B-DFlash2", "num_speculative_tokens": "7"}
    args = [word for key, value in keys.items() for word in (f"{flag}.{key}", value)]
    recipe["features"]["spec_decoding"] = {"args": [*whole, *args, "--max-num-seqs", "32"]}
    made = imported(recipe, REGISTRY, "x")
    (own,) = made.model.recipes
    assert (own.draft, own.block_size, own.max_concurrency) == (keys["model"], 8, 32)
    assert "speculative" not in said(made)


def test_a_schedule_comes_along_for_the_releases_that_follow_one() -> None:
    plan = make_plan(
        REGISTRY, Request(model="qwen3-8b", engine="vllm"), parse("H200", REGISTRY.gpus)
    )
    document = as_recipe(plan, REGISTRY.find("qwen3-8b"), "0.23.0")
    made = imported(document, REGISTRY, "r.yaml")
    (recipe,) = made.model.recipes
    assert recipe.schedule == [(1, 16, 15), (17, 64, 7)]
    assert recipe.when.version == ">=0.24.0"
    assert "per_batch_size" not in said(made)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ([[1, 8, 9]], "9 draft tokens are above the block's 7"),
        ([[2, 8, 7]], "its first range begins at 2 requests, not at 1"),
        ([[1, 8]], "it is no list of ranges"),
        ("15", "it is no list of ranges"),
    ],
)
def test_a_schedule_that_is_none_is_left_out(schedule, why) -> None:
    recipe = dflash(document("modes"), num_speculative_tokens_per_batch_size=schedule)
    made = imported(recipe, REGISTRY, "r.yaml")
    assert made.model.recipes[0].schedule == []
    assert why in said(made)


def test_no_hint_repeats_a_name_that_is_no_hub_id() -> None:
    with pytest.raises(RegistryError) as caught:
        imported(dflash(document("modes"), model="../../x"), REGISTRY, "x")
    assert caught.value.hint.startswith("dflash registry add DRAFT --target Qwen/Qwen3.8-27B")


def test_a_least_release_above_the_floor_is_kept() -> None:
    later = document("modes")
    later["model"]["min_vllm_version"] = "0.30.0"
    (recipe,) = imported(later, REGISTRY, "x").model.recipes
    assert recipe.when.version == ">=0.30.0"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": None}, "no `model.model_id`"),
        ({"features": {}}, "no DFlash mode"),
        ({"features": {"spec_decoding": {"modes": []}}}, "no DFlash mode"),
        ({"features": {"spec_decoding": {"args": ["--speculative-config", "{"]}}}, "no DFlash mode"),
        ({"features": {"spec_decoding": {"args": ["--speculative-config", '{"method":"mtp"}']}}}, "no DFlash mode"),
        ({"features": {"spec_decoding": {"args": ["-sc", '{"method":"dflash","model":"a/b","num_speculative_tokens":7}']}}}, "has no draft a/b"),
        ({"features": {"spec_decoding": {"args": ["-sc", '{"method":"dflash","model":"z-lab/Qwen3.8-27B-DFlash2"}']}}}, "num_speculative_tokens: it is not said"),
        ({"model": {"model_id": "me/own"}}, "me/own is not in the registry"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_over_is_said(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RegistryError, match=says) as caught:
        imported(document("modes") | change, REGISTRY, "r.yaml")
    assert caught.value.message.startswith("r.yaml: ")


@pytest.mark.parametrize("name", [[], "text", None, 7, {"a": 1}])
def test_no_document_crashes_it(name: Any) -> None:
    with pytest.raises(RegistryError):
        imported(name, REGISTRY, "r.yaml")


@pytest.mark.parametrize("model", ["qwen3-8b", "gpt-oss-120b", "qwen3.8-27b", "laguna-xs-2.1"])
def test_a_plan_written_as_a_recipe_reads_back_the_same(model: str) -> None:
    request = Request(model=model, engine="vllm", concurrency=12, kv_dtype="fp8")
    plan = make_plan(REGISTRY, request, parse("H100:8", REGISTRY.gpus))
    entry = REGISTRY.find(model)
    text = render(plan, entry)
    again = imported(yaml.safe_load(text), REGISTRY, "own")
    (recipe,) = again.model.recipes
    assert (recipe.block_size, recipe.draft) == (plan.block_size, plan.draft.id)
    assert (recipe.max_concurrency, recipe.kv_dtype) == (12, "fp8")
    (mode,) = dflash_modes(as_recipe(plan, entry))
    assert mode.config["num_speculative_tokens"] == plan.block_size - 1


def test_another_engine_has_no_such_recipe() -> None:
    plan = make_plan(
        REGISTRY, Request(model="qwen3-8b", engine="sglang"), parse("H100", REGISTRY.gpus)
    )
    with pytest.raises(Unsupported, match="sglang"):
        render(plan, REGISTRY.find("qwen3-8b"))


@pytest.mark.parametrize("word", ["abc", "nan", "1e400", "-1", "2", "1", "1.0", "0.0", ".0"])
def test_a_share_of_memory_that_is_none_is_left_out(word: str) -> None:
    recipe = document("modes")
    recipe["model"]["base_args"] = ["--gpu-memory-utilization", word]
    made = imported(recipe, REGISTRY, "modes.yaml")
    assert made.model.recipes[0].memory_fraction is None
    assert f"--gpu-memory-utilization {word}" in said(made)


# --- what an entry has no place for


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_cache_dtype", "auto"),
        ("draft_tensor_parallel_size", 1),
        ("rejection_sample_method", "block"),
        ("code_revision", "main"),
        ("enforce_eager", True),
        ("attention_backend", ["FLASH_ATTN"]),
        ("revision", 7),
        ("never_heard_of", {"a": 1}),
    ],
)
def test_every_key_of_a_speculative_config_is_taken_or_said(key: str, value: Any) -> None:
    made = imported(dflash(document("modes"), **{key: value}), REGISTRY, "r.yaml")
    assert f"--speculative-config {key} {json.dumps(value)}: an entry has no place" in said(made)


def test_keys_may_have_dashes_and_the_draft_may_choose_its_backend() -> None:
    recipe = dflash(document("modes"), **{"attention-backend": "AUTO", "kv-cache-dtype": "auto"})
    made = imported(recipe, REGISTRY, "r.yaml")
    assert made.model.recipes[0].draft_attention_backend is None
    assert "kv_cache_dtype" in said(made)
    assert "attention_backend" not in said(made)


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("model", "base_env"), {"VLLM_X": "1"}, "model.base_env.VLLM_X 1: no entry sets variables"),
        (("model", "docker_image"), "vllm/x:y", "model.docker_image vllm/x:y: how an engine is in"),
        (("model", "min_vllm_version"), "nightly", "min_vllm_version nightly: it is no release"),
        (("model", "base_args"), "--dtype half", "model.base_args --dtype half: "),
        (("model", "base_args"), ["--max-num-seqs", 0], "--max-num-seqs 0: "),
        (("model", "base_args"), ["--max-model-len", 9000], "--max-model-len 9000: --context says"),
        (("model", "base_args"), ["--reasoning-parser", "x"], "--reasoning-parser x: the entry says"),
        (("model", "base_args"), ["--moe-backend", "a b"], "--moe-backend 'a b': "),
        (("model", "base_args"), ["--language-model-only=yes"], "--language-model-only yes: "),
        (("dependencies",), [{"command": "pip install x"}], "dependencies.0.command pip install x: "),
        (("hardware_overrides",), {"amd": {"extra_args": ["--a", "b"]}}, "amd.extra_args --a b: what"),
        (("strategy_overrides",), {"single_node_tp": {"tp": 1}}, "strategy_overrides.single_node_tp"),
        (("variants", "default", "extra_env"), {"A": 1}, "variants.default.extra_env.A 1: no entry"),
        (("variants", "fp8"), {"model_id": "a/b"}, "variants.fp8.model_id a/b: the entry's own"),
        (("features", "vision"), {"args": ["--x", "1"]}, "--x 1: no such option"),
        (("features", "vision"), {"args": "--x 1"}, "features.vision.args --x 1: "),
        (("features", "spec_decoding", "modes", "dflash", "hardware"), {"b200": "unsupported"},
         "modes.dflash.hardware.b200 unsupported: "),
        (("features", "spec_decoding", "modes", "eagle"), {"args": ["--y"]}, "modes.eagle.args --y"),
    ],
)  # fmt: skip
def test_every_part_that_sets_something_is_taken_or_said(where, value, says) -> None:
    recipe = document("modes")
    *above, last = where
    part = recipe
    for name in above:
        part = part[name]
    part[last] = value
    assert says in said(imported(recipe, REGISTRY, "r.yaml"))


def mappings(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(node, dict):
        yield path, node
        for name, inner in node.items():
            yield from mappings(inner, (*path, name))


def test_what_nobody_foresaw_is_said_wherever_it_stands() -> None:
    seen = 0
    for path, _ in mappings(document("modes")):
        if path[:1] == ("meta",):
            continue
        recipe = document("modes")
        dict(mappings(recipe))[path]["surprise"] = "here"
        assert "surprise here" in said(imported(recipe, REGISTRY, "r.yaml")), path
        seen += 1
    assert seen > 8


def test_what_the_entry_says_itself_and_words_for_readers_are_no_loss() -> None:
    recipe = document("modes")
    recipe["model"] |= {"base_args": ["--enable-auto-tool-choice", "--tool-call-parser",
                                      "qwen3_coder"], "min_vllm_version": None,
                        "parameter_count": "27B"}  # fmt: skip
    recipe["guide"] = "read me"
    recipe["features"]["spec_decoding"]["modes"]["dflash"]["variants"] = ["default"]
    del recipe["model"]["docker_image"], recipe["features"]["spec_decoding"]["modes"]["mtp"]
    assert said(imported(recipe, REGISTRY, "r.yaml")) == ""


def test_what_is_said_twice_counts_as_a_parser_reads_it() -> None:
    recipe = document("modes")
    recipe["model"]["base_args"] = ["--max-num-seqs", "32", "--moe-backend", "triton"]
    recipe["variants"]["default"]["extra_args"] = ["--max-num-seqs", "8", "--moe-backend", "marlin"]
    (found,) = imported(recipe, REGISTRY, "r.yaml").model.recipes
    assert (found.max_concurrency, found.flags) == (8, ["--moe-backend=marlin"])


def test_the_default_variants_checkpoint_is_the_one_served() -> None:
    recipe = document("modes")
    recipe["variants"]["default"]["model_id"] = "Qwen/Qwen3.8-27B"
    recipe["model"]["model_id"] = "Qwen/Qwen3.8-27B-Plain"
    assert imported(recipe, REGISTRY, "r.yaml").target == "Qwen/Qwen3.8-27B"
    recipe["variants"]["default"]["model_id"] = "Qwen/Qwen3.8-27B-Other"
    recipe["model"]["model_id"] = "Qwen/Qwen3.8-27B"
    made = imported(recipe, REGISTRY, "r.yaml")
    assert made.target == "Qwen/Qwen3.8-27B"
    assert "variants.default.model_id Qwen/Qwen3.8-27B-Other" in said(made)


def test_one_mode_of_a_draft_is_taken_the_default_one_first() -> None:
    recipe = document("modes")
    modes = recipe["features"]["spec_decoding"]["modes"]
    modes["short"] = copy.deepcopy(dflash(document("modes"), num_speculative_tokens=3)
                                   ["features"]["spec_decoding"]["modes"]["dflash"])  # fmt: skip
    recipe["features"]["spec_decoding"]["default_mode"] = "short"
    made = imported(recipe, REGISTRY, "r.yaml")
    assert [each.block_size for each in made.model.recipes] == [4]
    assert "modes.dflash.args" in said(made)


def test_a_draft_that_is_no_target_has_no_recipe() -> None:
    recipe = document("modes")
    recipe["model"]["model_id"] = "z-lab/Qwen3.8-27B-DFlash2"
    with pytest.raises(RegistryError, match="is not in the registry"):
        imported(recipe, REGISTRY, "r.yaml")


def test_what_no_entry_may_say_is_refused_before_anything_is_written() -> None:
    with pytest.raises(RegistryError, match="above the draft's 8") as caught:
        imported(dflash(document("modes"), num_speculative_tokens=8), REGISTRY, "r.yaml")
    assert caught.value.hint


# --- the draft's revision


def test_a_pinned_draft_is_carried_in_a_copy_of_the_entry() -> None:
    made = imported(dflash(document("modes"), revision="abc123"), REGISTRY, "r.yaml")
    entry = REGISTRY.find("qwen3.8-27b")
    assert (made.model.extends, made.file) == (None, "models/Qwen/Qwen3.8-27B.yaml")
    pinned = {draft.id: draft.revision for draft in made.model.drafts}
    assert pinned["z-lab/Qwen3.8-27B-DFlash2"] == "abc123"
    others = {draft.id: draft.revision for draft in entry.model.drafts}
    assert pinned == others | {"z-lab/Qwen3.8-27B-DFlash2": "abc123"}
    assert made.model.target == entry.model.target
    assert any("copied whole" in note for note in made.notes)
    assert "revision" not in said(made)


def test_no_recipe_of_the_copy_is_behind_one_that_hides_it() -> None:
    made = imported(dflash(document("modes"), revision="abc123"), REGISTRY, "r.yaml")
    served = [each.name for each in made.model.recipes if each.when.engine == "vllm"
              and each.draft in (None, "z-lab/Qwen3.8-27B-DFlash2")]  # fmt: skip
    assert served[0] == "imported-dflash"
    assert any(each.when.engine == "sglang" for each in made.model.recipes)


def test_the_revision_that_the_registry_has_needs_no_copy() -> None:
    known, draft = next((e, d) for e in REGISTRY.entries.values() for d in e.model.drafts
                        if d.revision and any(r.when.engine == "vllm" for r in e.model.recipes)
                        and d == e.model.drafts[0])  # fmt: skip
    plan = make_plan(
        REGISTRY, Request(model=known.id, engine="vllm"), parse("H100:8", REGISTRY.gpus)
    )
    made = imported(as_recipe(plan, known), REGISTRY, "r.yaml")
    assert plan.draft.revision == draft.revision
    assert (made.model.extends, made.notes) == (known.id, ())


def test_a_revision_that_no_copy_may_have_is_said() -> None:
    """Beside remote code every weight needs a whole commit, and the entry knows none."""
    recipe = {
        "model": {"model_id": "moonshotai/Kimi-K2.7-Code"},
        "features": {"spec_decoding": {"args": ["-sc", json.dumps(
            {"method": "dflash", "model": "nvidia/Kimi-K2.7-Code-DFlash",
             "num_speculative_tokens": 7, "revision": "a" * 40})]}},
    }  # fmt: skip
    made = imported(recipe, REGISTRY, "r.yaml")
    assert made.model.extends == "moonshotai/Kimi-K2.7-Code"
    assert f"--speculative-config revision {'a' * 40}: weights" in said(made)
