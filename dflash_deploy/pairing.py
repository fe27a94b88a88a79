"""Which target a draft is for, and whether the registry has the two already. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dflash_deploy.draft_config import ReadDraft, mismatches
from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.model_config import HUB_ID
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import Draft

UNREAD = "unknown"
"""What stands for the class of a target whose config nobody read."""


def draft_classes(engines: Mapping[str, Engine]) -> set[str]:
    """The classes of drafts that some release of some engine loads."""
    lists = (item for engine in engines.values() for item in engine.supports)
    return {name for item in lists if item.role == "draft" for name in item.architectures}


def spelled(registry: Registry, draft_id: str) -> str:
    """A draft's id as the registry writes it: the hub takes any case."""
    known = (draft.id for entry in registry.entries.values() for draft in entry.model.drafts)
    return next((each for each in known if each.lower() == draft_id.lower()), draft_id)


def find_target(registry: Registry, read: ReadDraft, asked: str | None) -> tuple[str, Entry | None]:
    """The target's hub id, and its entry if there is one. Never a guess.

    Raises UsageError with the targets that would fit if nothing names one, UnknownModel for a word
    that is no hub id.
    """
    draft = read.draft.id
    owner = owner_of(registry, draft)
    name = asked or owner or read.verifier
    if name is None:
        fitting = candidates(registry, read)
        raise UsageError(
            f"{draft} does not say which target it is for"
            + (f": {', '.join(fitting)} would fit" if fitting else ""),
            hint=f"--target {fitting[0] if fitting else 'OWNER/NAME, a hub id'}",
        )
    known = registry.names.get(name.lower())
    if owner and known != owner:
        raise UsageError(
            f"{draft} is a draft of {owner} in the registry already, and has one target there",
            hint=f"dflash plan {draft}",
        )
    if known is None:
        if not HUB_ID.fullmatch(name):
            registry.find(name)  # raises, with a suggestion
        return name, None
    entry = registry.entries[known]
    if entry.stands_in:
        raise UsageError(
            f"{name}: the hub id of that target is not known here",
            hint="--target OWNER/NAME, its hub id",
        )
    if name.lower() in {each.id.lower() for each in entry.model.drafts}:
        raise UsageError(f"{name} is a draft itself, of {known}", hint=f"--target {known}")
    return known, entry


def owner_of(registry: Registry, draft_id: str) -> str | None:
    """The target that the registry has for a draft; none while an entry stands in for it."""
    found = registry.names.get(draft_id.lower())
    return None if found and registry.entries[found].stands_in else found


def candidates(registry: Registry, read: ReadDraft) -> list[str]:
    """Targets whose sizes are known and go with the draft's."""
    return [
        entry.id for entry in registry.entries.values()
        if entry.model.target and entry.target.hidden_size and entry.target.vocab_size
        and not mismatches(read, entry.target)
    ]  # fmt: skip


def check_known(entry: Entry | None, draft_id: str) -> None:
    """Raises for a draft that needs no adding, or that is known not to work."""
    old = draft_of(entry, draft_id)
    if entry is None or old is None:
        return
    if old.unservable and old.block_size is not None:
        raise Unsupported(
            f"{draft_id} is known, and cannot be served: {old.unservable}",
            hint=f"dflash show {entry.name}",
        )
    was_read = old.block_size and old.layers and old.target_layer_ids
    if was_read and not entry.model.unservable:
        raise UsageError(
            f"{draft_id} is in the registry already, for {entry.id}", hint=f"dflash plan {draft_id}"
        )


def wants_config(entry: Entry | None, *, given: bool) -> bool:
    """Whether the target's own config.json is to be read. Raises UsageError if it is not asked."""
    if entry is None or entry.target.architecture == UNREAD:
        return True
    if given and entry.target.layers:
        raise UsageError(
            f"{entry.id} is in the registry: its config.json is not needed",
            hint="leave --target-config out",
        )
    return given


def draft_of(entry: Entry | None, draft_id: str) -> Draft | None:
    drafts = entry.model.drafts if entry else []
    return next((each for each in drafts if each.id == draft_id), None)
