"""What is wrong between a target, its drafts and its engines' words. Pure; `validate` asks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from dflash_deploy.engine_schema import Engine
from dflash_deploy.flag_tables import tables
from dflash_deploy.reach import Releases, is_range, matching
from dflash_deploy.registry import Entry
from dflash_deploy.schedule import fault
from dflash_deploy.situation import flag_for

_FLAGS = {"tool": "--tool-call-parser", "reasoning": "--reasoning-parser"}


def check_parsers(entry: Entry) -> Iterator[tuple[str, str]]:
    """A parser's name is one that some release of the engine knows."""
    for parsers in entry.model.target.parsers if entry.model.target else []:
        for kind, flag in _FLAGS.items():
            name, known = getattr(parsers, kind), _names(parsers.engine, flag)
            if name and known and name not in known:
                yield f"parsers of {parsers.engine}", f"`{name}` is no {flag} of any release"


def check_taps(entry: Entry) -> Iterator[tuple[str, str]]:
    """A draft reads layers that its target has, and masks with one of its tokens."""
    target = entry.model.target
    if target is None:
        return
    counted = bool(target.layers) and all(run.kind != "linear" for run in target.layers)
    layers = sum(run.count for run in target.layers)
    for draft in entry.model.drafts:
        taps, mask = draft.target_layer_ids or [], draft.mask_token_id
        if len({*taps}) < len(taps):
            yield f"draft `{draft.id}`", "`target_layer_ids`: a layer stands in it twice"
        if counted and taps and max(taps) >= layers:
            where = f"draft `{draft.id}`"
            yield where, f"`target_layer_ids`: {max(taps)}, and the target has {layers} layers"
        if mask is not None and target.vocab_size and not 0 <= mask < target.vocab_size:
            where = f"draft `{draft.id}`"
            yield where, f"`mask_token_id`: {mask}, and the target knows {target.vocab_size} tokens"


def check_schedules(entry: Entry, engines: Mapping[str, Engine]) -> Iterator[tuple[str, str]]:
    """A recipe's schedule is one, and every release that the recipe is for can be told it."""
    drafts = {draft.id: draft for draft in entry.model.drafts}
    for recipe in entry.model.recipes:
        if not recipe.schedule:
            continue
        where, when = f"recipe `{recipe.name}`", recipe.when
        draft = drafts.get(recipe.draft or next(iter(drafts), ""))
        block = recipe.block_size or (draft and draft.block_size)
        if wrong := fault(recipe.schedule, block - 1 if block else None):
            yield where, f"`schedule`: {wrong}"
        if when.version is not None and not is_range(when.version):
            continue  # said elsewhere
        for name, version in sorted(matching(when, Releases.of(engines))):
            if flag_for(engines[name], "schedule", version) is None:
                yield where, f"`schedule`: {name} {version} follows none, and `when` lets it in"
                break


@cache
def _names(engine: str, flag: str) -> frozenset[str]:
    return frozenset(
        choice
        for table in tables(engine) for row in table.flags if row.name == flag
        for choice in row.choices or ()
    )  # fmt: skip
