"""What the draft is worth: tokens a cycle on prompts it never saw, and whether it changes any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.measure.judged import Compared, Judgement, judge
from dflash_deploy.measure.lossless import BETWEEN_SUMS, NEAR_TIE, Divergence
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.load import load_draft
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train import files
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.parting import parting
from dflash_deploy.train.recipe import MEASURED, Recipe
from dflash_deploy.train.walk import Walk, walked

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
    near_ties: int = 0
    """How many part where the target's two tokens were within rounding of each other."""
    partings: list[Divergence] = []
    """Of all that are not the same, a token by its id; those that are no near ties come first."""


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
    file = folder / MEASURED
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
    beside = judged(
        SpeculativeDecoder(model, load_draft(draft)), held_out[:CHECKED], ends,
        BETWEEN_SUMS.get(str(model.dtype).removeprefix("torch."), NEAR_TIE), stop,
    )  # fmt: skip
    found = summed(walks, kinds, recipe.block_size, beside)
    files.write_whole(file, msgspec.json.encode(found) + b"\n")
    return found


def judged(
    decoder: SpeculativeDecoder, answers: Sequence[Answer], ends: frozenset[int], most: float,
    stop: Callable[[], bool],
) -> Judgement:  # fmt: skip
    """The prompts' answers with the draft and without it. `most`: nats that are a near tie.

    Raises Stopped.
    """
    seen = []
    for answer in answers:
        if stop():
            raise Stopped
        prompt = answer.input_ids[: answer.loss_mask.index(1)]
        room = min(CHECKED_TOKENS, decoder.max_context - len(prompt))
        sampling = Sampling(room, stop_token_ids=ends)
        found = parting(decoder, prompt, sampling, decoder.generate(prompt, sampling))
        seen.append(Compared(str(answer.id), found, plain_loops=False, dflash_loops=False))
    return judge(seen, max_regret=most)


def summed(
    walks: Sequence[Walk], kinds: dict[int, str], block: int, beside: Judgement
) -> Acceptance:
    cycles = [accepted for walk in walks for accepted in walk.accepted]
    names = sorted({kinds.get(walk.id, "") for walk in walks} - {""})
    apart = (*beside.costly, *beside.untold, *beside.near_ties)
    return Acceptance(
        acceptance_length=_length(walks),
        by_position=[
            round(sum(accepted > place for accepted in cycles) / max(1, len(cycles)), 3)
            for place in range(block - 1)
        ],
        by_kind={
            name: _length([walk for walk in walks if kinds.get(walk.id) == name]) for name in names
        },
        prompts=len(walks), tokens=sum(walk.tokens for walk in walks),
        checked=beside.prompts, equal=beside.exact, near_ties=len(beside.near_ties),
        partings=[one.divergence for one in apart if one.divergence],
    )  # fmt: skip


def _length(walks: Sequence[Walk]) -> float:
    count = sum(len(walk.accepted) for walk in walks)
    return round(sum(walk.tokens for walk in walks) / max(1, count), 3)
