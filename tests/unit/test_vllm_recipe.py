"""Recipes of vllm-project/recipes: read, and written so that they read back the same."""

from __future__ import annotations

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
from dflash_deploy.vllm_recipe import as_recipe, dflash_modes, imported
from dflash_deploy.yaml_source import read_yaml

REGISTRY = load(user=False)
RECIPES = Path(__file__).parents[1] / "fixtures" / "recipes"


def document(name: str) -> Any:
    return read_yaml((RECIPES / f"{name}.yaml").read_text(encoding="utf-8"), name)


def test_a_mode_among_several() -> None:
    made = imported(document("modes"), REGISTRY, "modes.yaml")
    (recipe,) = made.model.recipes
    assert made.model.extends == "Qwen/Qwen3.8-27B"
    assert (recipe.name, recipe.draft, recipe.block_size) == (
        "imported-dflash", "z-lab/Qwen3.8-27B-DFlash2", 8,
    )  # fmt: skip
    assert (recipe.max_concurrency, recipe.flags) == (32, ["--language-model-only"])
    assert made.model.evidence == []
    assert any("needs 0.28.0" in line for line in made.left_out)


def test_the_arguments_beside_a_single_mode() -> None:
    made = imported(document("plain"), REGISTRY, "plain.yaml")
    (recipe,) = made.model.recipes
    assert (recipe.block_size, recipe.flags) == (16, ["--moe-backend=triton"])
    left = "\n".join(made.left_out)
    assert "--trust-remote-code: remote code" in left
    assert "--download-dir /etc: a plan decides it, or an overlay may not set it" in left


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


@pytest.mark.parametrize("word", ["abc", "nan", "1e400", "-1", "2"])
def test_a_share_of_memory_that_is_none_is_left_out(word: str) -> None:
    recipe = document("modes")
    recipe["model"]["base_args"] = ["--gpu-memory-utilization", word]
    made = imported(recipe, REGISTRY, "modes.yaml")
    assert made.model.recipes[0].memory_fraction is None
    assert any("--gpu-memory-utilization" in line for line in made.left_out)
