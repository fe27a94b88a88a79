"""An entry in a few words: what `list` shows and `show` begins with. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dflash_deploy.choose import highest_floor
from dflash_deploy.engine_schema import Engine
from dflash_deploy.registry import Entry
from dflash_deploy.schedule import in_words
from dflash_deploy.schema import (
    Draft,
    EngineName,
    Evidence,
    Measurement,
    Recipe,
    Status,
    When,
)
from dflash_deploy.status import best_synthetic, status


def matches(entry: Entry, query: str, engine: str | None) -> bool:
    """Whether a part of any of its names is `query`, and `engine` serves it."""
    drafts = (draft.id for draft in entry.model.drafts)
    names = (entry.id, entry.target.family, *entry.model.aliases, *drafts)
    if not any(query.lower() in name.lower() for name in names):
        return False
    return engine is None or engine in engine_statuses(entry)


def order(entry: Entry) -> tuple[Any, ...]:
    """What can be served first, then by family and name, with 8b before 14b."""
    return (entry.model.unservable is not None, _natural(entry.target.family), _natural(entry.name))


def _natural(name: str) -> list[tuple[float, str]]:
    parts = re.split(r"(\d+(?:\.\d+)?)", name.lower())
    return [(float(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)]


def meant(entry: Entry, model: str) -> Draft | None:
    """The draft that MODEL is the hub id of, else the entry's first; None: it has none."""
    named = [draft for draft in entry.model.drafts if draft.id.lower() == model.lower()]
    return next(iter(named or entry.model.drafts), None)


def engine_statuses(entry: Entry, draft: Draft | None = None) -> dict[EngineName, Status]:
    """Each engine that some recipe is for, in the registry's order of preference.

    With a draft: that some recipe with this draft is for. Without: of the first draft, which a plan
    takes unless told, where the engine has a recipe with it. An overlay's further draft, as `train`
    writes it, has its recipes in front of them.
    """
    found: dict[EngineName, Status] = {}
    first = (None, *(each.id for each in entry.model.drafts[:1]))
    for recipe in sorted(entry.model.recipes, key=lambda each: each.draft not in first):
        if draft is not None and entry.draft(recipe.draft) != draft:
            continue
        if recipe.when.engine:
            found.setdefault(recipe.when.engine, seen(entry, recipe))
    return found


def seen(entry: Entry, recipe: Recipe) -> Status:
    """With the weights that a plan takes unless told; where nobody tried those, with others."""
    names = (weights.name for weights in entry.target.weights)
    found = (status(entry, recipe, name) for name in names)
    return next((each for each in found if each != "untested"), "untested")


def best(entry: Entry) -> tuple[Measurement, Evidence] | None:
    """The row with the largest speed-up over plain decoding."""
    rows = [
        (row, evidence)
        for evidence in entry.model.evidence
        for row in evidence.results
        # what no release of an engine did is nothing a user will see
        if row.speedup is not None and evidence.build is None
    ]
    return max(rows, key=lambda pair: pair[0].speedup or 0) if rows else None


def best_speedup(entry: Entry) -> str | None:
    """As `5.8x math500`, else `4.9x synthetic`; `show` says where and how.

    Made-up acceptance promises nothing where somebody saw what a release really accepts.
    """
    if found := best(entry):
        return f"{found[0].speedup:g}x {found[0].task}"
    seen_real = any(
        evidence.results and evidence.build is None and not evidence.synthetic
        for evidence in entry.model.evidence
    )
    made_up = None if seen_real else best_synthetic(entry)
    return f"{made_up[0].speedup:g}x synthetic" if made_up else None


def floors(entry: Entry, draft: Draft, engines: Mapping[str, Engine]) -> dict[EngineName, str]:
    """The first release of each engine that some recipe is for."""
    found = {
        name: highest_floor(entry, engines[name], name, draft) for name in engine_statuses(entry)
    }
    return {name: floor.version for name, floor in found.items() if floor}


def summarise(entry: Entry, engines: Mapping[str, Engine]) -> dict[str, Any]:
    """The JSON of one line of `list`."""
    drafts = entry.model.drafts
    return {
        "name": entry.name,
        "family": entry.target.family,
        "target": entry.id,
        "aliases": entry.model.aliases,
        "drafts": [
            {"id": draft.id, "kind": draft.kind, "block_size": draft.block_size,
             "unservable": draft.unservable}
            for draft in drafts
        ],
        "engines": engine_statuses(entry),
        "floors": floors(entry, drafts[0], engines) if drafts else {},
        "unservable": entry.model.unservable,
        "best_speedup": _where(best(entry)),
        "best_synthetic": _where(best_synthetic(entry)),
        "layer": entry.layer,
    }  # fmt: skip


def _where(found: tuple[Measurement, Evidence] | None) -> dict[str, Any] | None:
    """A gain, and what it was seen on."""
    return found and {
        "task": found[0].task, "concurrency": found[0].concurrency, "speedup": found[0].speedup,
        "gpu": found[1].gpu, "engine": found[1].engine, "version": found[1].version,
        "date": found[1].date,
    }  # fmt: skip


def conditions(when: When) -> str:
    """A recipe's condition in words: `vllm >=0.26.0, hopper, up to 16 at once`."""
    parts = [f"{when.engine or 'any engine'} {when.version or ''}".strip()]
    parts += [*(when.architecture or []), *(when.cards or [])]
    if when.memory_at_least_gib:
        parts.append(f"{when.memory_at_least_gib} GiB cards")
    if when.concurrency_at_most:
        parts.append(f"up to {when.concurrency_at_most} at once")
    if when.kv_dtype:
        parts.append(f"{when.kv_dtype} KV")
    if when.thinking:
        parts.append(f"thinking {when.thinking}")
    return ", ".join(parts)


def values(recipe: Recipe) -> str:
    """What a recipe decides, in words; empty where it leaves everything to the engine."""
    decided = (
        ("blocks of", recipe.block_size), ("draft tokens", in_words(recipe.schedule)),
        ("target on", recipe.attention_backend),
        ("draft on", recipe.draft_attention_backend), ("KV cache", recipe.kv_dtype),
        ("at most", recipe.max_concurrency and f"{recipe.max_concurrency} at once"),
        ("memory fraction", recipe.memory_fraction),
    )  # fmt: skip
    return ", ".join([f"{name} {value}" for name, value in decided if value] + recipe.flags)
