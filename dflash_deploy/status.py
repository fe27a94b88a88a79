"""How far a recipe is to be trusted: it follows from the entry's evidence, and is never written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

from packaging.version import Version

from dflash_deploy.reach import is_range, is_version, within
from dflash_deploy.registry import Entry
from dflash_deploy.schema import Draft, EngineName, Evidence, Measurement, Recipe, Span, Status

Seen = tuple[Measurement, Evidence]
_WORST_FIRST: tuple[Status, ...] = ("unsupported", "degraded", "verified", "published")


def status(
    entry: Entry,
    recipe: Recipe,
    weights: str | None = None,
    cards: frozenset[str] | None = None,
) -> Status:
    """The worst outcome that was seen; where nothing was, `untested`. Every command asks here.

    `weights`: what was seen with others is left out; None: the entry's first, which a plan takes.
    `cards`: those like the user's. An engine that could not start on another architecture says
    nothing of them; a draft that was accepted less does, as does a success.
    Own eyes come before a card: of `verified` and `published` the first is kept.
    """
    served = weights or _first_weights(entry)
    seen = {
        evidence.outcome
        for evidence in evidence_for(entry, recipe, served)
        if cards is None or evidence.gpu is None
        or evidence.outcome != "unsupported" or evidence.gpu in cards
    }  # fmt: skip
    return next((outcome for outcome in _WORST_FIRST if outcome in seen), "untested")


def evidence_for(entry: Entry, recipe: Recipe, weights: str | None = None) -> list[Evidence]:
    """What was seen of this recipe's engine, draft and releases.

    What no release of the engine did (`build`) and what a release below the floor did are about
    something else.
    """
    engine = recipe.when.engine
    draft = _draft(entry, recipe.draft)
    return [
        evidence
        for evidence in entry.model.evidence
        if evidence.build is None
        and (weights is None or evidence.weights in (None, weights))
        and engine in (None, evidence.engine)
        and _draft(entry, evidence.draft) == draft
        and _in_range(evidence.version, recipe.when.version)
        and not _below_floor(entry, evidence.engine, evidence.version)
    ]


def _first_weights(entry: Entry) -> str | None:
    target = entry.model.target
    return target.weights[0].name if target and target.weights else None


def _draft(entry: Entry, draft_id: str | None) -> str | None:
    """The first draft of an entry is meant where none is named."""
    if draft_id is not None or not entry.model.drafts:
        return draft_id
    return entry.model.drafts[0].id


def _in_range(version: str | None, versions: str | None) -> bool:
    """What cannot be compared is kept: `dflash registry check` says what is wrong with it."""
    if version is None or versions is None or not (is_version(version) and is_range(versions)):
        return True
    return within(versions, Version(version))


def _below_floor(entry: Entry, engine: EngineName, version: str | None) -> bool:
    return version is not None and any(
        Version(version) < Version(floor.version)
        for floor in entry.model.floors
        if floor.engine == engine and is_version(version) and is_version(floor.version)
    )


def best_synthetic(entry: Entry) -> Seen | None:
    """The row with the largest gain that acceptance was made up for: what the engine costs, and no
    status.
    """
    return max(_synthetic(entry), key=lambda pair: pair[0].speedup or 0, default=None)


def nearest_synthetic(
    entry: Entry,
    draft: Draft,
    engine: EngineName,
    block_size: int,
    concurrency: int,
    schedule: Sequence[Span] = (),
) -> Seen | None:
    """That of a draft and engine which says most of a plan: its schedule, else its block, then the
    nearest load; the latest of several.
    """

    def far(seen: Seen) -> tuple[bool, bool, float]:
        row, _ = seen
        return (
            row.schedule != list(schedule), row.block_size != block_size,
            abs(log((row.concurrency or 1) / concurrency)),
        )  # fmt: skip

    rows = (
        (row, evidence) for row, evidence in _synthetic(entry)
        if engine == evidence.engine and entry.draft(evidence.draft) == draft
    )  # fmt: skip
    latest_first = sorted(rows, key=lambda seen: seen[1].date or "", reverse=True)
    return min(latest_first, key=far, default=None)


def _synthetic(entry: Entry) -> Iterator[Seen]:
    for evidence in entry.model.evidence:
        for row in evidence.results:
            if evidence.synthetic and row.speedup is not None:
                yield row, evidence
