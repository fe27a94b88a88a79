"""What is wrong between a target, its drafts and its engines' words. Pure; `validate` asks it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dflash_deploy.flag_tables import tables
from dflash_deploy.registry import Entry

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
        if counted and taps and max(taps) >= layers:
            where = f"draft `{draft.id}`"
            yield where, f"`target_layer_ids`: {max(taps)}, and the target has {layers} layers"
        if mask is not None and target.vocab_size and not 0 <= mask < target.vocab_size:
            where = f"draft `{draft.id}`"
            yield where, f"`mask_token_id`: {mask}, and the target knows {target.vocab_size} tokens"


@cache
def _names(engine: str, flag: str) -> frozenset[str]:
    return frozenset(
        choice
        for table in tables(engine) for row in table.flags if row.name == flag
        for choice in row.choices or ()
    )  # fmt: skip
