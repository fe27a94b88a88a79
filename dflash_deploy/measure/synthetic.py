"""Made-up acceptance: from an acceptance length to a rate for each place of the block. Pure.

The i-th draft token of a cycle counts only if all before it do. If each is right with the same
chance p, the i-th is accepted in p^i of the cycles, and a cycle of K draft tokens yields

    1 + p + p^2 + ... + p^K

tokens, its bonus token included. `chance` solves that for p, at the block the length was published
for. A shorter block has the same p and fewer terms, so that it accepts less; a longer one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from dflash_deploy.errors import UsageError
from dflash_deploy.schema import Draft, Model

PUBLISHED = "published"
AVERAGE = "average"
"""A row over all of a publisher's tasks."""
STEPS = 60
DIGITS = 6
"""Of a rate, on a command line."""


def chance(length: float, drafted: int) -> float:
    """The p of `drafted` draft tokens that yields the acceptance length. Raises UsageError."""
    if not 1 <= length <= drafted + 1:
        raise UsageError(
            f"a block of {drafted + 1} cannot yield {length:g} tokens",
            hint=f"--synthetic-acceptance takes a length from 1 to {drafted + 1} here",
        )
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sum(middle, drafted) < length - 1 else (low, middle)
    return (low + high) / 2


def rates(chance_of_one: float, drafted: int) -> tuple[float, ...]:
    """How often each place is accepted: of all cycles, never more than the place before it."""
    return tuple(round(chance_of_one**place, DIGITS) for place in range(1, drafted + 1))


def length_of(by_place: Sequence[float]) -> float:
    """Tokens a cycle yields at these rates, bonus included."""
    return 1 + sum(by_place)


def made_up(
    said: str, block_sizes: Sequence[int], model: Model, draft: Draft
) -> dict[int, tuple[float, ...]]:
    """The rates for each block size, from `published`, a length, or the rates themselves.

    A length is for the draft's own block. Raises UsageError.
    """
    if "," in said:
        given = _given(said)
        return {block: _first(given, block - 1) for block in block_sizes}
    own = draft.block_size or max(block_sizes)
    length = published_length(model, draft) if said.lower() == PUBLISHED else _number(said)
    one = chance(length, own - 1)
    return {block: rates(one, block - 1) for block in block_sizes}


def published_length(model: Model, draft: Draft) -> float:
    """Of the draft's own block, decoding greedily: the average that somebody published, else ours.

    Ours counts each task once, however often it is on record. Raises UsageError.
    """
    seen: dict[str, list[float]] = {}
    for evidence in model.evidence:
        if evidence.draft not in (None, draft.id) or evidence.temperature or evidence.synthetic:
            continue
        for row in evidence.results:
            own = (row.block_size or evidence.block_size) == draft.block_size
            if own and row.acceptance_length is not None:
                seen.setdefault(row.task, []).append(row.acceptance_length)
    if not seen:
        raise UsageError(
            f"no acceptance length is published for {draft.id}",
            hint="--synthetic-acceptance 5.0, say",
        )
    tasks = {AVERAGE: seen[AVERAGE]} if AVERAGE in seen else seen
    return fmean(fmean(found) for found in tasks.values())


def _sum(one: float, drafted: int) -> float:
    return sum(one**place for place in range(1, drafted + 1))


def _number(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        raise UsageError(
            f"--synthetic-acceptance {said} is no acceptance",
            hint="published, a length as 5.0, or rates by place as 0.8,0.6,0.4",
        ) from None


def _given(said: str) -> tuple[float, ...]:
    found = tuple(_number(part) for part in said.split(","))
    falling = all(one >= other for one, other in pairwise(found))
    if not falling or not all(0 <= rate <= 1 for rate in found):
        raise UsageError(
            f"--synthetic-acceptance {said}: rates are from 0 to 1, and none is above the one"
            " before it",
            hint="as in 0.8,0.6,0.4",
        )
    return found


def _first(given: tuple[float, ...], drafted: int) -> tuple[float, ...]:
    if len(given) < drafted:
        raise UsageError(
            f"{len(given)} rates are too few for a block of {drafted + 1}",
            hint=f"--synthetic-acceptance takes {drafted} of them, or one length",
        )
    return given[:drafted]
