"""What the draft is worth: tokens a cycle on prompts it never saw, and whether it changes any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.load import load_draft
from dflash_deploy.speculative.types import Sampling, Step
from dflash_deploy.train import files
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.loop import Stopped
from dflash_deploy.train.recipe import Recipe
from dflash_deploy.train.walk import Walk, walked

FILE = "acceptance.json"
CHECKED, CHECKED_TOKENS = 4, 96
"""Prompts that are decoded with and without the draft, and at most so many tokens of each."""


class Acceptance(msgspec.Struct, frozen=True):
    """Over all held-out prompts, greedy, whole blocks."""

    acceptance_length: float
    """Tokens a step of the target, its own included."""
    by_position: list[float]
    """Of all steps, how often the first, the second ... drafted token was accepted."""
    by_kind: dict[str, float]
    """The acceptance length of each kind of prompt, where they have kinds."""
    prompts: int
    tokens: int
    checked: int
    """Prompts that were decoded with and without the draft."""
    equal: int
    """How many of those answers are the same token for token."""


def measure(
    folder: Path,
    draft: Path,
    recipe: Recipe,
    ends: frozenset[int],
    model: Any,
    held_out: Sequence[Answer],
    kinds: dict[int, str],
    told: Callable[[int, int], None],
    stop: Callable[[], bool],
) -> Acceptance:
    """Walk through each held-out answer, and decode some anew. Raises Stopped.

    `kinds`: what kind of prompt an answer's id is of.
    """
    file = folder / FILE
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Acceptance)
    trained = loaded(draft, model.device)
    frozen = Frozen(model, trained.config.target_layer_ids)
    walks = []
    for walk in walked(trained, frozen, held_out, recipe.length):
        walks.append(walk)
        told(len(walks), len(held_out))
        if stop():
            raise Stopped
    checked = held_out[:CHECKED]
    equal = same_text(SpeculativeDecoder(model, load_draft(draft)), checked, ends)
    found = summed(walks, kinds, recipe.block_size, len(checked), equal)
    files.write_whole(file, msgspec.json.encode(found) + b"\n")
    return found


def same_text(decoder: SpeculativeDecoder, answers: Sequence[Answer], ends: frozenset[int]) -> int:
    """How many of the prompts get the same tokens with the draft as without it."""
    equal = 0
    for answer in answers:
        prompt = answer.input_ids[: answer.loss_mask.index(1)]
        sampling = Sampling(CHECKED_TOKENS, stop_token_ids=ends)
        steps = decoder.generate(prompt, sampling)
        plain = decoder.generate(prompt, sampling, speculate=False)
        equal += _tokens(steps) == _tokens(plain)
    return equal


def summed(
    walks: Sequence[Walk], kinds: dict[int, str], block: int, checked: int, equal: int
) -> Acceptance:
    cycles = [accepted for walk in walks for accepted in walk.accepted]
    names = sorted({kinds.get(walk.id, "") for walk in walks} - {""})
    return Acceptance(
        acceptance_length=_length(walks),
        by_position=[
            round(sum(accepted > place for accepted in cycles) / max(1, len(cycles)), 3)
            for place in range(block - 1)
        ],
        by_kind={
            name: _length([walk for walk in walks if kinds.get(walk.id) == name]) for name in names
        },
        prompts=len(walks), tokens=sum(walk.tokens for walk in walks), checked=checked, equal=equal,
    )  # fmt: skip


def _length(walks: Sequence[Walk]) -> float:
    count = sum(len(walk.accepted) for walk in walks)
    return round(sum(walk.tokens for walk in walks) / max(1, count), 3)


def _tokens(steps: Iterable[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]
