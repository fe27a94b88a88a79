"""From a draft that was read to the registry entry that serves it, or the reason against. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from msgspec.structs import replace
from packaging.version import Version

from dflash_deploy.draft_config import ReadDraft, mismatches, remarks
from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import RegistryError, Unsupported, UsageError
from dflash_deploy.overlaid import over_drafts
from dflash_deploy.pairing import draft_of
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.rules import FirstRelease, findings, first_release
from dflash_deploy.schema import Draft, EngineName, Model, Recipe, Target, When
from dflash_deploy.situation import Situation
from dflash_deploy.target_config import ReadTarget
from dflash_deploy.validate import problems

ENGINES: tuple[EngineName, ...] = ("vllm", "sglang")
Mode = Literal["new", "extends", "replaces"]


@dataclass(frozen=True)
class NewEntry:
    """What is to be written, and what came out for each engine."""

    target_id: str
    mode: Mode
    """`extends` adds to an entry that stays; `replaces` is a whole copy of one, because a draft or
    a target of it had not been read and an overlay cannot change either."""
    model: Model
    draft: Draft
    served: Mapping[EngineName, FirstRelease]
    refused: Mapping[EngineName, str]
    remarks: tuple[str, ...] = ()
    """What is unusual in the pair, and no reason against it."""

    @property
    def file(self) -> str:
        """Its path below the registry's folder.

        A file that extends is named by the draft, so that several drafts of one target, and
        settings of the user's own, stand beside each other.
        """
        name = self.draft.id if self.mode == "extends" else self.target_id
        return f"models/{name}.yaml"


def compose(
    registry: Registry, read: ReadDraft, target_id: str, entry: Entry | None,
    read_target: ReadTarget | None,
) -> NewEntry:  # fmt: skip
    """The entry, checked as `dflash registry check` would. `entry` or `read_target` is there.

    Raises UsageError for a model that is to draft for itself, Unsupported for a pair that does not
    match or that no release serves, RegistryError where the entry could not stand.
    """
    if read.draft.id.lower() == target_id.lower():
        raise UsageError(
            f"{target_id} cannot be its own draft", hint="--id OWNER/NAME, or --target"
        )
    target = known_target(entry, read_target)
    reasons = mismatches(read, target, read_target.layers if read_target else None)
    if reasons:
        raise Unsupported(
            f"{read.draft.id} is no draft of {target_id}: {'; '.join(reasons)}",
            hint="another --target",
        )
    draft = kept(read.draft, draft_of(entry, read.draft.id))
    served, refused = verdicts(registry.engines, target, draft, own_head=read.own_head)
    if not served:
        raise Unsupported(
            f"no release of {' or '.join(ENGINES)} known here serves {draft.id} with {target_id}",
            hint="dflash registry check, once an engine's newer release is known",
            detail="\n".join(f"{name}: {why}" for name, why in refused.items()),
        )
    names = [*served, *embedded(registry.engines, entry, target, read)]
    model, mode = laid_down(registry, entry, target_id, target, draft, names)
    made = NewEntry(target_id, mode, model, draft, served, refused, tuple(remarks(read, target)))
    seen = as_entry(target_id, model, made.file, entry)
    for problem in problems([seen], registry.engines):
        raise RegistryError(
            f"{draft.id} cannot be added to {target_id}: {problem.where}: {problem.message}",
            hint="write the entry by hand: templates/entry.yaml",
        )
    return made


def known_target(entry: Entry | None, read: ReadTarget | None) -> Target:
    """What the config says of sizes and layers, and what the entry knows of everything else."""
    if read is None:
        if entry is None:
            raise AssertionError("neither an entry nor a config of the target")
        return entry.target
    if entry is None:
        return read.target
    said = read.target
    return replace(
        entry.target, architecture=said.architecture, hidden_size=said.hidden_size,
        vocab_size=said.vocab_size, context=said.context, layers=said.layers,
    )  # fmt: skip


def kept(draft: Draft, old: Draft | None) -> Draft:
    """A draft as read; what was known of it and is in no config.json stays."""
    note = "read from its config.json, not tried here"
    if old is None:
        return replace(draft, note=note)
    return replace(
        draft, licence=old.licence, terms=old.terms, gated=old.gated, thinking=old.thinking,
        trained_context=old.trained_context, note=note,
    )  # fmt: skip


SMALL_GIB = 16
"""Of weights: the registry's largest with a recipe for the embedded engine is of 8B, in bf16."""
WHOLE = frozenset(("bf16", "fp16", "fp32"))
"""Weights as they were trained; to others belong kernels of their own."""


def verdicts(
    engines: Mapping[str, Engine], target: Target, draft: Draft, *, own_head: bool = False
) -> tuple[dict[EngineName, FirstRelease], dict[EngineName, str]]:
    """The first release of each engine for this pair, or what speaks against it to this day."""
    served: dict[EngineName, FirstRelease] = {}
    refused: dict[EngineName, str] = {}
    for name in ENGINES:
        first = first_release(engines[name], target, draft)
        if why := unreadable(name, draft, own_head=own_head):
            refused[name] = why
        elif first:
            served[name] = first
        else:
            refused[name] = _refusal(engines[name], target, draft)
    return served, refused


def embedded(
    engines: Mapping[str, Engine], entry: Entry | None, target: Target, read: ReadDraft
) -> list[EngineName]:
    """The embedded engine, for a target that it serves already, or a new one as small as those."""
    name: EngineName = "transformers"
    if entry:
        there = any(recipe.when.engine == name for recipe in entry.model.recipes)
    else:
        weights = target.weights[0]
        there = (weights.gib or inf) < SMALL_GIB and weights.name in WHOLE
    barred = unreadable(name, read.draft, own_head=read.own_head)
    first = first_release(engines[name], target, read.draft)
    return [name] if there and first and not barred else []


def unreadable(engine: EngineName, draft: Draft, *, own_head: bool) -> str | None:
    """What an engine cannot read in a draft, whatever else it supports."""
    if engine != "vllm" and draft.format == "speculators":
        return "it reads drafts in the z-lab layout alone"
    if engine != "vllm" and own_head:
        return "it drafts with the target's head, and leaves out the one that this draft brings"
    if engine != "sglang" and draft.mask_token_id is None:
        return "it needs the mask token's number, and the draft names a word"
    return None


def _refusal(engine: Engine, target: Target, draft: Draft) -> str:
    newest = Version(engine.releases[-1].version)
    at = Situation(
        engine=engine, version=newest, target=target, draft=draft,
        block_size=draft.block_size, concurrency=1,
    )  # fmt: skip
    return next(item.message for item in findings(at) if item.severity == "refuse")


def laid_down(
    registry: Registry, entry: Entry | None, target_id: str, target: Target, draft: Draft,
    engines: Collection[EngineName],
) -> tuple[Model, Mode]:  # fmt: skip
    left = left_names(registry, draft.id)
    if entry is None:
        return Model(
            aliases=aliases(registry, target_id, left), target=target, drafts=[draft],
            recipes=recipes(draft, engines),
        ), "new"  # fmt: skip
    own = recipes(draft, in_order(entry, engines), f"{draft.id.lower().replace('/', '-')}-")
    if draft_of(entry, draft.id) or entry.model.unservable or entry.target != target:
        return rewritten(entry, target, draft, own, left), "replaces"
    return Model(extends=entry.id, aliases=left, drafts=[draft], recipes=own), "extends"


def rewritten(
    entry: Entry, target: Target, draft: Draft, own: list[Recipe], left: list[str]
) -> Model:
    """The whole entry, with what was read now in the place of what was not known.

    The new recipes come last: which engine and draft a plan takes unless told stays as it was.
    """
    model = entry.model
    drafts = [draft if each.id == draft.id else each for each in model.drafts]
    told = {recipe.when.engine for recipe in model.recipes
            if entry.draft(recipe.draft).id == draft.id}  # fmt: skip
    further = [recipe for recipe in own if recipe.when.engine not in told]
    return replace(
        model, aliases=[*model.aliases, *left], target=target,
        drafts=drafts if draft in drafts else [*drafts, draft],
        unservable=None, recipes=[*model.recipes, *further],
    )  # fmt: skip


def recipes(draft: Draft, engines: Iterable[EngineName], prefix: str = "") -> list[Recipe]:
    return [
        Recipe(
            name=f"{prefix}{engine}", when=When(engine=engine), draft=draft.id,
            why="nobody has published or measured this pair: the backends are left to the engine",
            source=f"config.json of {draft.id}",
        )
        for engine in engines
    ]  # fmt: skip


def in_order(entry: Entry, engines: Collection[EngineName]) -> list[EngineName]:
    """The entry's own preference first: the first recipe of all says which engine a plan takes."""
    preferred = [recipe.when.engine for recipe in entry.model.recipes]
    return sorted(
        engines, key=lambda name: preferred.index(name) if name in preferred else len(preferred)
    )


def aliases(registry: Registry, target_id: str, left: list[str]) -> list[str]:
    """The repository's name, if it names nothing else that stays, and those that were left."""
    name = target_id.rpartition("/")[2].lower()
    free = name not in registry.names or name in left
    return list(dict.fromkeys([*([name] if free else []), *left]))


def left_names(registry: Registry, draft_id: str) -> list[str]:
    """Those of the entry that stood in for the draft's target, and gives way."""
    found = registry.names.get(draft_id.lower())
    entry = registry.entries[found] if found else None
    return [*entry.model.aliases] if entry and entry.stands_in else []


def as_entry(target_id: str, model: Model, file: str, entry: Entry | None) -> Entry:
    """As the registry will see it once the file is there."""
    if model.extends is None or entry is None:
        return Entry(target_id, model, (file,), "user")
    below = entry.model
    merged = replace(
        below,
        drafts=over_drafts(below.drafts, model.drafts),
        recipes=[*model.recipes, *below.recipes],
    )
    return dataclasses.replace(
        entry, model=merged, files=(file, *entry.files), layer="user", below=entry
    )
