"""Models in folders: which of the registry's they are, by what a command says of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from dflash_deploy.explain.secret import may_be_repeated
from dflash_deploy.explain.variables import needs_shell
from dflash_deploy.registry import Entry, Registry

_IN_CACHE = re.compile(r"(?:^|/)models--([^/]+?)--([^/]+)/snapshots/")
BY_NAME, BY_SERVED = "the folder's name", "its served name"
BY_CACHE, BY_DRAFT = "its place in the hub's cache", "its draft"


@dataclass(frozen=True)
class Taken:
    """A model of the registry that a folder is taken for, and by what."""

    id: str
    by: str

    def though(self, others: Iterable[Taken]) -> Taken:
        """The same, where something else says otherwise."""
        other = next((found for found in others if found.id != self.id), None)
        return replace(self, by=f"{self.by}, though {other.by} says {other.id}") if other else self


def is_folder(word: str) -> bool:
    """A hub id has one slash, and starts with a letter."""
    return word.startswith(("/", "./", "../", "~"))


def is_snapshot(folder: str, model: str) -> bool:
    """Whether it is where the hub's cache has that model."""
    found = _IN_CACHE.search(f"{folder}/")
    return found is not None and _is_same(model, "/".join(found.groups()))


def targets_told(registry: Registry, folder: str | None, served: Iterable[str]) -> list[Taken]:
    """What is said of a target's folder, but for its draft; the first has the most to say."""
    return [*_targets(registry, folder, served)] if folder and _is_legible(folder) else []


def draft_told(registry: Registry, folder: str, target: Entry | None) -> Taken | None:
    """The one draft that a folder is said to be; of several, the one of its target."""
    if not _is_legible(folder):
        return None
    known = [draft.id for entry in registry.entries.values() for draft in entry.model.drafts]
    if cached := _only(i for i in known if is_snapshot(folder, i)):
        return Taken(cached, BY_CACHE)
    called = [i for i in known if _is_called(i, folder)]
    own = {draft.id for draft in target.model.drafts} if target else set()
    found = _only(called) or _only(i for i in called if i in own)
    return Taken(found, BY_NAME) if found else None


def _targets(registry: Registry, folder: str, served: Iterable[str]) -> Iterator[Taken]:
    known = [entry.id for entry in registry.entries.values() if not entry.stands_in]
    named = {registry.names.get(name.lower()) for name in served}
    for by, ids in (
        (BY_SERVED, (i for i in known if i in named)),
        (BY_CACHE, (i for i in known if is_snapshot(folder, i))),
        (BY_NAME, (i for i in known if _is_called(i, folder))),
    ):
        if found := _only(ids):
            yield Taken(found, by)


def _is_legible(folder: str) -> bool:
    """Whether the right command can say it again."""
    return not needs_shell(folder) and may_be_repeated(folder)


def _only(ids: Iterable[str]) -> str | None:
    found = {*ids}
    return found.pop() if len(found) == 1 else None


def _is_same(model: str, other: str) -> bool:
    return model.lower() == other.lower()


def _is_called(model: str, folder: str) -> bool:
    return _is_same(model.rpartition("/")[2], PurePosixPath(folder).name)
