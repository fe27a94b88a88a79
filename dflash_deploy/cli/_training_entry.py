"""The registry entry of a draft that was trained: it never takes another's name."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_deploy.cli import _adding, _entry_file, _output
from dflash_deploy.cli._configs import CONFIG, from_folder, in_cache
from dflash_deploy.draft_config import read_draft
from dflash_deploy.errors import DFlashError, UsageError
from dflash_deploy.pairing import draft_classes
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.train.recipe import Recipe

if TYPE_CHECKING:
    from dflash_deploy.cli._training import Wanted

TOLD = ("kind", "block_size", "target_layer_ids", "mask_token_id", "parameters")
"""Of a draft's entry: what another training in the same folder changes, and plans hang on."""


def others(
    registry: Registry, plan: Recipe, draft: Path, config: Path | None, *, finished: bool
) -> UsageError | None:
    """The error for a name of this run that means something else in the registry already.

    `draft`: its folder; `config`: the target's, if it has one; `finished`: the run had its draft
    before, and an entry that says no folder is its own.
    """
    return _other_draft(registry, plan, draft, finished=finished) or _other_target(
        registry, plan, config
    )


def _other_draft(
    registry: Registry, plan: Recipe, draft: Path, *, finished: bool
) -> UsageError | None:
    entry = registry.entries.get(registry.names.get(plan.draft.lower(), ""))
    if entry is None:
        return None
    hint = "another --output, or --id OWNER/NAME of another name"
    its = next((each for each in entry.model.drafts if each.id.lower() == plan.draft.lower()), None)
    if its is None:
        return UsageError(f"{plan.draft} is a target in {entry.files[-1]}", hint=hint)
    if its.path == os.path.realpath(draft) or (its.path is None and finished):
        return None
    at = f" at {its.path}" if its.path else ""
    if its.path and not Path(its.path, CONFIG).is_file():
        at += ", which is gone"
    return UsageError(f"{its.id} is another draft{at}, of {_file(entry, its.id)}", hint=hint)


def _other_target(registry: Registry, plan: Recipe, config: Path | None) -> UsageError | None:
    entry = registry.entries.get(registry.names.get(plan.target.lower(), ""))
    place = _here(config)
    if entry is None or place is None:
        return None
    paths = [each.path for each in entry.target.weights if each.path]
    if not paths or place in paths:
        return None
    return UsageError(
        f"{plan.target} is the target at {paths[0]} in {entry.files[-1]}, and not the one at"
        f" {place}, though that is called so after its folder",
        hint="a folder of another name",
    )


def _here(folder: Path | None) -> str | None:
    """A target's folder, unless it is the hub client's: then the hub has it too."""
    return os.path.realpath(folder) if folder and in_cache(folder) is None else None


def _file(entry: Entry, draft_id: str) -> str:
    """The file that says it: several drafts of one target have one each."""
    saying = (
        each for each in entry.chain if any(one.id == draft_id for one in each.own_drafts)
    )  # fmt: skip
    return next(saying, entry).files[0]


def entered(
    wanted: Wanted, plan: Recipe, draft: Path, config: Path | None, *, finished: bool
) -> Path | None:
    """The file of its entry. The draft is whole without one: a refusal is only told."""
    registry = _entry_file.below(wanted.registry)  # others may have written to it meanwhile
    known = registry.names.get(plan.target.lower())
    by_hand = _by_hand(plan, draft, None if known else config)
    if other := others(registry, plan, draft, config, finished=finished):
        _refused(other, by_hand)
        return None
    if plan.draft.lower() in registry.names:
        return _own(registry, plan, draft, f"{by_hand} --print")
    try:
        result = _adding.added(
            str(draft), target=plan.target, target_config=None if known else config,
            draft_id=plan.draft, folder=wanted.registry, here=wanted.registry is None,
        )  # fmt: skip
        _adding.write(result, wanted.registry)
    except DFlashError as error:
        _refused(error, _mend(error, f"{by_hand} --print"))
        return None
    for line in result.notes:
        _output.note(line)
    if (place := _here(config)) and known and not registry.find(known).target.weights[0].path:
        _output.note(f"its plans take {plan.target} as the hub has it, and not {place}")
    if where := _where(wanted, plan, draft, result.file):
        _output.note(where)
    return result.file


def _own(registry: Registry, plan: Recipe, draft: Path, by_hand: str) -> Path:
    """Its file, written before; perhaps for a draft that stood in the same place."""
    entry = registry.find(plan.draft)
    file = _file(entry, plan.draft)
    source = from_folder(draft, plan.draft)
    classes = draft_classes(registry.engines)
    here = read_draft(source.config, plan.draft, classes, stored=source.stored).draft
    its = next(each for each in entry.model.drafts if each.id.lower() == plan.draft.lower())
    changed = [
        f"{name} {getattr(its, name)}, not {getattr(here, name)}"
        for name in TOLD
        if getattr(its, name) != getattr(here, name)
    ]
    if changed:
        _output.warning(f"{file} says otherwise of it: {'; '.join(changed)}")
        _output.note(f"hint: {by_hand}; then mend {file}")
    return Path(file)


def _refused(error: DFlashError, hint: str) -> None:
    _output.warning(f"no registry entry: {error.message}")
    _output.note(f"hint: {hint}")


def _mend(error: DFlashError, by_hand: str) -> str:
    """What to do, in words of this command, which has no --print."""
    if isinstance(error.__cause__, OSError):
        return "mend that; the same command writes it"
    return error.hint if error.hint and error.hint != _entry_file.BY_HAND else by_hand


def _by_hand(plan: Recipe, draft: Path, config: Path | None) -> str:
    words = ["dflash", "registry", "add", os.path.realpath(draft), "--target", plan.target]
    words += ["--target-config", str(config)] if config else []
    return shlex.join([*words, "--id", "local/NAME"])


def _where(wanted: Wanted, plan: Recipe, draft: Path, file: Path) -> str | None:
    """Where engines look for it, if not simply where it is."""
    if wanted.registry is not None:
        return (
            f"engines look for {plan.draft} on the hub: an entry outside your own registry names"
            f" no folder, and the draft is in {os.path.realpath(draft)}"
        )
    if wanted.draft_id is not None:
        return f"plans name its folder; once the hub has {plan.draft}: take `path` out of {file}"
    return None
