"""A plan for vLLM as a recipe of theirs."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from dflash_deploy.errors import Unsupported
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Entry
from dflash_deploy.vllm_recipe.modes import flat


def as_recipe(plan: Plan, entry: Entry, least: str | None = None) -> dict[str, Any]:
    """A plan for vLLM as a recipe of theirs; `imported` reads the same values back.

    `least` is the first release that serves the pair; the plan's own where it is not known.

    Raises Unsupported for a plan of another engine.
    """
    if plan.engine != "vllm":
        raise Unsupported(
            f"a recipe of vLLM cannot say what {plan.engine} is told", hint="--engine vllm"
        )
    given = parse(flag_table("vllm", Version(plan.version)), plan.argv[3:])
    speculation = [item for item in given if item.flag == "--speculative-config"]
    own = {"--host", "--port", "--served-model-name", "--speculative-config"}
    target, minimum = entry.target, entry.target.minimum
    made: dict[str, Any] = {
        "meta": {
            "title": plan.model.rpartition("/")[2],
            "slug": entry.name,
            "provider": plan.model.partition("/")[0],
            "description": f"{plan.model} with the DFlash draft {plan.draft.id}",
            "tasks": ["text"],
        },
        "model": {
            "model_id": plan.model,
            "min_vllm_version": least or plan.version,
            "parameter_count": target.parameters,
            "context_length": target.context,
            "base_args": list(flat(item for item in given if item.flag not in own)),
            "base_env": dict(plan.env),
        },
        "features": {
            "spec_decoding": {
                "description": f"blocks of {plan.block_size}: DFlash with {plan.draft.id}",
                "default_mode": "dflash",
                "modes": {"dflash": {"label": "DFlash", "args": list(flat(speculation))}},
            }
        },
        "opt_in_features": ["spec_decoding"],
        "variants": {"default": {"precision": plan.target.name}},
    }
    if minimum and minimum.memory_gb:
        made["variants"]["default"]["vram_minimum_gb"] = minimum.memory_gb
    return made
