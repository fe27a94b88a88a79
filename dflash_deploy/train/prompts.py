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
from dflash_deploy.train.grammar import Grammar
from dflash_deploy.train.recipe import Recipe

FILE = "prompts.jsonl"
ROLE = "role"


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    id: int
    messages: list[dict[str, str]]
    kind: str = ""
    """Of this project's own: math, code, chat and so on."""


def write(folder: Path, recipe: Recipe) -> list[Asked]:
    """Choose the prompts once; a run that is taken up again keeps those it began with."""
    file = folder / FILE
    if not file.exists():
        files.rewrite(file, chosen(recipe))
    return files.read_lines(file, Asked)


def chosen(recipe: Recipe) -> list[Asked]:
    """The prompts, shuffled, at most as many as the recipe says. Raises UsageError."""
    if recipe.path:
        every = [("", messages) for messages in given(Path(recipe.path))]
        random.Random(recipe.seed).shuffle(every)  # noqa: S311
    else:
        every = own(recipe.prompts, recipe.seed)
    taken = every[: recipe.prompts]
    if len(taken) < recipe.held_out + 1:
        few = "1 prompt is" if len(taken) == 1 else f"{len(taken)} prompts are"
        fewer = f"--held-out {max(1, len(taken) // 4)}, or " if len(taken) > 1 else ""
        raise UsageError(
            f"{recipe.path or 'these prompts'}: {few} too few:"
            f" {recipe.held_out} are held out to measure acceptance",
            hint=f"{fewer}more prompts",
        )
    return [Asked(number, messages, kind) for number, (kind, messages) in enumerate(taken)]


def given(path: Path) -> list[list[dict[str, str]]]:
    return [prompt.messages for prompt in read_prompts(path, "own")]


def own(count: int, seed: int) -> list[tuple[str, list[dict[str, str]]]]:
    """This project's own, which are as many as anybody asks for."""
    return [(kind, said_by_user(text)) for kind, text in _grammar().prompts(count, seed)]


def own_roles() -> list[str]:
    """What a target may be told to be, before it writes a prompt itself."""
    return _grammar().rules[ROLE]


def _grammar() -> Grammar:
    return registry.read(registry_root() / "workloads" / "training.yaml", Grammar)


def said_by_user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def trained(asked: Sequence[Asked], recipe: Recipe) -> list[Asked]:
    """All but those that are held out, which come last."""
    return list(asked[: len(asked) - recipe.held_out])


def held_out(asked: Sequence[Asked], recipe: Recipe) -> list[Asked]:
    return list(asked[len(asked) - recipe.held_out :])
