"""Prompts that the target writes itself: the user's turn is left empty, and it goes on.

An instruct model has seen many users; what it writes there is what it expects to be asked
(Magpie, arXiv 2406.08464).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from dflash_deploy.train import files
from dflash_deploy.train.batched import Continued
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.gpus import Devices
from dflash_deploy.train.prompts import Asked, own_roles, said_by_user
from dflash_deploy.train.recipe import OWN_TOKENS, Recipe

FILE = "own-prompts.jsonl"
KIND = "own"
SHORTEST = 10
"""Characters."""


def write(
    folder: Path, recipe: Recipe, chat: Chat, devices: Callable[[], Devices],
    ends: frozenset[int], told: Callable[[int, int], None],
) -> list[Asked]:  # fmt: skip
    """At most `recipe.self_prompts` prompts, all different; written once."""
    file = folder / FILE
    if recipe.self_prompts and not file.exists():
        texts = _texts(recipe, chat, devices(), ends, told)
        first = recipe.prompts
        files.rewrite(
            file, [Asked(first + n, said_by_user(text), KIND) for n, text in enumerate(texts)]
        )
    return files.read_lines(file, Asked)


def _texts(
    recipe: Recipe, chat: Chat, devices: Devices, ends: frozenset[int],
    told: Callable[[int, int], None],
) -> list[str]:  # fmt: skip
    chance = random.Random(recipe.seed)  # noqa: S311
    roles = own_roles()
    starts = [
        chat.user_turn(chance.choice(roles) if chance.random() < 0.5 else None)
        for _ in range(recipe.self_prompts)
    ]
    found: dict[str, None] = {}
    for begin in range(0, len(starts), devices.window):
        window = starts[begin : begin + devices.window]
        rows = [Continued(start, OWN_TOKENS, 1.0) for start in window]
        said = devices.continued(
            rows, ends, recipe.seed * 1_000_003 + begin, _behind(begin, len(starts), told)
        )
        found |= dict.fromkeys(_whole(said, ends, chat))
        told(begin + len(rows), len(starts))
    return list(found)


def _behind(begin: int, total: int, told: Callable[[int, int], None]) -> Callable[[int], None]:
    """What tells of a window: the last word, the whole of it, is the caller's."""
    return lambda done: told(min(begin + done, total - 1), total)


def _whole(said: Sequence[list[int]], ends: frozenset[int], chat: Chat) -> list[str]:
    """The prompts that came to their end, and say something."""
    texts = [chat.said(tokens[:-1]) for tokens in said if tokens and tokens[-1] in ends]
    return [text for text in texts if len(text) >= SHORTEST]
