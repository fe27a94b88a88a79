"""The draft that `dflash train --start` goes on with: a folder, or an id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy import hub
from dflash_deploy.cli import _output
from dflash_deploy.cli._configs import from_folder
from dflash_deploy.draft_config import OTHERS, laid_out, mismatches, read_draft
from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.model_config import HUB_ID
from dflash_deploy.registry import Registry
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import Draft, Target
from dflash_deploy.train.recipe import Recipe

CLASSES = ("DFlashDraftModel", "DFlash2DraftModel")
OPTIONS = {
    "layers": "--layers",
    "block_size": "--block-size",
    "mask_token_id": "--mask-token",
    "selector_rank": "--selector-rank",
}


def going_on(
    registry: Registry, name: str, target: Target, plan: Recipe, given: Mapping[str, Any],
    *, whole: bool,
) -> Recipe:  # fmt: skip
    """The recipe that goes on with a draft. Raises Unsupported where it is not the target's, and
    UsageError where an option says otherwise than it.

    `whole`: its weights are needed, and not its config alone.
    """
    folder = found(registry, name, whole=whole)
    source = from_folder(folder, None)
    read = read_draft(source.config, name, CLASSES)
    if wrong := mismatches(read, target):
        raise Unsupported(f"{name} is no draft for {plan.target}: {'; '.join(wrong)}", hint=OTHERS)
    _, fields = laid_out(source.config, name)
    after = msgspec.structs.replace(
        plan,
        start=str(folder),
        layers=sum(group.count for group in read.draft.layers),
        block_size=read.draft.block_size or plan.block_size,
        mask_token_id=read.draft.mask_token_id,
        selector_rank=fields.optional_count("selector_rank") or 0,
    )
    for field, option in OPTIONS.items():
        asked, has = given.get(field), getattr(after, field)
        if asked is not None and asked != has:
            raise UsageError(
                f"{option} {asked}: the draft to start with has {has or 'none'}",
                hint=f"leave {option} or --start out",
            )
    return after


def found(registry: Registry, name: str, *, whole: bool) -> Path:
    """The draft's folder, fetched if it has to be. Raises UsageError, DownloadError."""
    path = Path(name)
    if path.is_dir():
        return path.resolve()
    known = listed(registry, name)
    if known is not None and known.path is not None:
        return registry_root() / known.path
    if known is None and (path.exists() or not HUB_ID.fullmatch(name)):
        raise UsageError(f"--start {name}: no such folder", hint="a draft's folder or hub id")
    revision = known.revision if known else None
    return hub.from_hub(
        hub.WeightsSource(known.id if known else name, "draft", revision),
        _output.note,
        bars=_output.redraws(),
        allow=hub.ALLOW if whole else ("config.json",),
    )


def listed(registry: Registry, name: str) -> Draft | None:
    """A draft of the registry by its id, case aside."""
    entry = registry.entries.get(registry.names.get(name.lower(), ""))
    drafts = entry.model.drafts if entry else []
    return next((draft for draft in drafts if draft.id.lower() == name.lower()), None)
