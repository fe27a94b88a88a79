"""`registry add` at work: configs read from the hub or a folder, an entry written and proved."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dflash_deploy.cli import _entry_file
from dflash_deploy.cli._configs import CONFIG, Source, draft_source, in_cache, target_source
from dflash_deploy.draft_config import ReadDraft, read_draft
from dflash_deploy.entry_yaml import as_yaml
from dflash_deploy.errors import RegistryError, UsageError
from dflash_deploy.new_entry import NewEntry, compose
from dflash_deploy.pairing import check_known, draft_classes, find_target, spelled, wants_config
from dflash_deploy.registry import Entry, Registry, user_folder
from dflash_deploy.target_config import ReadTarget, read_target

DRAFT_VALUES = (
    "block_size", "target_layer_ids", "mask_token_id", "layers", "causal", "hidden_size",
    "max_position_embeddings", "parameters", "gib",
)  # fmt: skip
TARGET_VALUES = ("hidden_size", "vocab_size", "max_position_embeddings", "layers", "weights")


@dataclass(frozen=True)
class Added:
    made: NewEntry
    text: str
    file: Path
    notes: tuple[str, ...]
    replaced: Entry | None
    """The entry whose place it takes, where it does not extend it."""


def added(
    name: str, *, target: str | None, target_config: Path | None, draft_id: str | None,
    folder: Path | None, here: bool = False,
) -> Added:  # fmt: skip
    """The entry for a draft, checked and not yet written.

    `here`: engines are to read the draft, and the target of that config, from their folders.
    """
    root = folder or user_folder()
    registry = _entry_file.below(folder)
    source = draft_source(name, draft_id)
    known_as = spelled(registry, source.id)
    read = read_draft(
        source.config, known_as, draft_classes(registry.engines),
        revision=source.revision, stored=source.stored,
    )  # fmt: skip
    if source.folder and folder:
        raise UsageError(
            f"{source.id} is on this machine alone, and goes into your own registry",
            hint="leave --registry out; or --id OWNER/NAME, by which the hub has it",
        )
    place = os.path.realpath(name) if here else source.folder
    if place:
        read = dataclasses.replace(read, draft=replace(read.draft, path=place))
    target_id, entry = find_target(registry, read, target)
    check_known(entry, known_as)
    its, target_read = None, None
    if wants_config(entry, given=target_config is not None):
        its = target_source(target_id, target_config)
        target_read = read_target(its.config, target_id, revision=its.revision, stored=its.stored)
        if at := target_config and target_place(target_config, its, folder, here=here):
            target_read = placed(target_read, at)
    made = compose(registry, read, target_id, entry, target_read)
    file = root / made.file
    text = as_yaml(made.model, comments(made, source, read, its, target_read))
    replaced = entry if made.mode == "replaces" else None
    return Added(made, text, file, tuple(notes(made, read, target_read)), replaced)


def target_place(
    config: Path, its: Source, folder: Path | None, *, here: bool
) -> str | None:  # fmt: skip
    """The folder that a target is served from, where no hub has it."""
    unpublished = its.folder is not None or (here and in_cache(config) is None)
    return os.path.realpath(config) if unpublished and folder is None else None


def placed(read: ReadTarget, folder: str) -> ReadTarget:
    """A target whose weights are in a folder of this machine."""
    weights = [replace(each, path=folder, revision=None) for each in read.target.weights]
    return dataclasses.replace(read, target=replace(read.target, weights=weights))


def write(result: Added, folder: Path | None) -> None:
    def prove(registry: Registry) -> None:
        proved(registry, result.made)

    _entry_file.write(result.file, result.text, folder, prove, result.replaced)


def proved(registry: Registry, made: NewEntry) -> None:
    """Whether what was written is what the registry now says."""
    entry = registry.find(made.draft.id)
    if made.draft not in entry.model.drafts:
        raise RegistryError(f"{entry.files[0]} says otherwise of {made.draft.id}")


def comments(
    made: NewEntry, source: Source, read: ReadDraft, its: Source | None,
    target_read: ReadTarget | None,
) -> Iterator[str]:  # fmt: skip
    """The top of the file: where each value came from, and what is left to find out."""
    today = datetime.now(UTC).date()
    yield f"Written by `dflash registry add` on {today} from {CONFIG} of {source.place}."
    if made.mode == "extends":
        yield f"It adds a draft to {made.target_id}, whose entry stays as it is."
    if made.mode == "replaces":
        yield f"It takes the place of the whole entry for {made.target_id}, which it was copied"
        yield "from: later corrections of that one do not arrive here."
    yield ""
    yield "The draft's values, and the field that each was read from:"
    yield from origins(DRAFT_VALUES, read.origins)
    if its and target_read:
        yield ""
        yield f"The target's values, from {CONFIG} of {its.place}:"
        yield from origins(TARGET_VALUES, target_read.origins)
    yield ""
    yield "`null`: no config.json says it. Licence, thinking mode and parsers: see the model cards."
    yield "No evidence: the pair counts as untested. First releases, by the engines' rules:"
    for engine, first in made.served.items():
        yield f"  {engine} {first.version}"
    for engine, why in made.refused.items():
        yield f"  {engine}: none: {why}"


def origins(names: tuple[str, ...], found: Any) -> Iterator[str]:
    for name in names:
        if name in found:
            said = "context" if name == "max_position_embeddings" else name
            yield f"  {said}: {found[name]}"


def notes(made: NewEntry, read: ReadDraft, target_read: ReadTarget | None) -> Iterator[str]:
    """What the user should know, and cannot see in the plan."""
    if read.verifier and read.verifier.lower() != made.target_id.lower():
        yield f"its config.json names {read.verifier} as its target, not {made.target_id}"
    if target_read and target_read.own_code:
        yield (
            f"{made.target_id} brings Python code of its own: if an engine asks for it, write"
            " `remote_code: required` under target, and a revision of the weights and the draft"
        )
    if made.mode == "replaces":
        yield (
            f"the entry for {made.target_id} is copied whole: later corrections of it do not arrive"
        )
    yield from made.remarks
    for engine, why in made.refused.items():
        yield f"no recipe for {engine}: {why}"


def headline(result: Added) -> str:
    draft, served = result.made.draft, result.made.served
    size = f"{draft.parameters / 1e6:.0f}M parameters" if draft.parameters else "size unknown"
    layers = sum(group.count for group in draft.layers)
    releases = ", ".join(f"{engine} from {first.version}" for engine, first in served.items())
    return (
        f"{draft.id} for {result.made.target_id}: {draft.kind}, blocks of {draft.block_size},"
        f" {layers} layers, {size}; {releases}; untested"
    )


def document(result: Added, *, written: bool) -> dict[str, Any]:
    made = result.made
    return {
        "file": str(result.file) if written else None,
        "target": made.target_id,
        "draft": made.draft.id,
        "mode": made.mode,
        "engines": {
            **{engine: {"first_release": first.version, "because": first.because,
                        "source": first.source} for engine, first in made.served.items()},
            **{engine: {"first_release": None, "because": why, "source": None}
               for engine, why in made.refused.items()},
        },
        "notes": result.notes,
        "entry": made.model,
    }  # fmt: skip
