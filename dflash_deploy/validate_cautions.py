"""Whether cautions and recipes speak of engines, drafts and cards that there are. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import get_args

from dflash_deploy.engine_schema import Engine
from dflash_deploy.reach import is_range
from dflash_deploy.registry import Entry
from dflash_deploy.schema import Architecture, Caution, Gpu


def check_cautions(entry: Entry, engines: Mapping[str, Engine]) -> Iterator[tuple[str, str]]:
    drafts = {draft.id for draft in entry.model.drafts}
    for caution in entry.model.cautions:
        where = _named(caution)
        if caution.engine is not None and caution.engine not in engines:
            yield where, f"unknown engine `{caution.engine}`"
        if caution.version is not None and not is_range(caution.version):
            yield where, f"`{caution.version}` is no range of versions"
        if caution.version is not None and caution.engine is None:
            yield where, "a range of versions needs the engine it speaks of"
        if caution.draft is not None and caution.draft not in drafts:
            yield where, f"unknown draft `{caution.draft}`"


def unknown_cards(entry: Entry, gpus: Collection[Gpu]) -> Iterator[tuple[str, str]]:
    """What is for a card that is not in the catalogue would never be said, nor chosen."""
    known = {*get_args(Architecture), *(gpu.id for gpu in gpus)}
    for caution in entry.model.cautions:
        for card in caution.cards or ():
            if card not in known:
                yield _named(caution), f"unknown card `{card}`"
    names = {gpu.id for gpu in gpus}
    for recipe in entry.model.recipes:
        for card in recipe.when.cards or ():
            if card not in names:
                yield f"recipe `{recipe.name}`", f"unknown card `{card}`"


def _named(caution: Caution) -> str:
    return f"caution `{caution.message[:40]}...`"
