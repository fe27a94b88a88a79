"""A plan as a recipe of vllm-project/recipes."""

from __future__ import annotations

import yaml

from dflash_deploy.plan import Plan
from dflash_deploy.registry import Entry
from dflash_deploy.vllm_recipe import as_recipe


def render(plan: Plan, entry: Entry, least: str | None = None) -> str:
    """YAML, dumped from data. Raises Unsupported for a plan of another engine than vLLM."""
    return yaml.safe_dump(as_recipe(plan, entry, least), sort_keys=False, width=100).rstrip("\n")
