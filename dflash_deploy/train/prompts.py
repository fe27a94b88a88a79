"""What the target is asked: the user's prompts or this project's own, in an order of the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dflash_deploy import registry
from dflash_deploy.errors import UsageError
from dflash_deploy.measure.prompts import read_prompts
from dflash_deploy.resources import registry_root
from dflash_deploy.train import files
from dflash_deploy.train.recipe import Recipe

FILE = "prompts.jsonl"


class Asked(msgspec.Struct, frozen=True):
    id: int
    messages: list[dict[str, str]]


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    templates: list[str]
    topics: list[str]


def write(folder: Path, recipe: Recipe) -> list[Asked]:
    """Choose the prompts once; a run that is taken up again keeps those it began with."""
    file = folder / FILE
    if not file.exists():
        files.rewrite(file, chosen(recipe))
    return files.read_lines(file, Asked)


def chosen(recipe: Recipe) -> list[Asked]:
    """The prompts, shuffled, at most as many as the recipe says. Raises UsageError."""
    every = given(Path(recipe.path)) if recipe.path else own()
    random.Random(recipe.seed).shuffle(every)  # noqa: S311
    taken = every[: recipe.prompts]
    if len(taken) < recipe.held_out + 1:
        raise UsageError(
            f"{recipe.path or 'these prompts'}: {len(taken)} prompts are too few:"
            f" {recipe.held_out} are held out to measure acceptance",
            hint=f"--held-out {max(1, len(taken) // 4)}, or more prompts",
        )
    return [Asked(number, messages) for number, messages in enumerate(taken)]


def given(path: Path) -> list[list[dict[str, str]]]:
    return [prompt.messages for prompt in read_prompts(path, "own")]


def own() -> list[list[dict[str, str]]]:
    parts = registry.read(registry_root() / "workloads" / "training.yaml", Parts)
    return [
        [{"role": "user", "content": template.format(topic)}]
        for template in parts.templates
        for topic in parts.topics
    ]


def trained(asked: Sequence[Asked], recipe: Recipe) -> list[Asked]:
    """All but those that are held out, which come last."""
    return list(asked[: len(asked) - recipe.held_out])


def held_out(asked: Sequence[Asked], recipe: Recipe) -> list[Asked]:
    return list(asked[len(asked) - recipe.held_out :])
