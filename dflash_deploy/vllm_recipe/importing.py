"""A recipe's DFlash mode as an overlay of ours, and what of the recipe did not come along."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import replace
from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import RegistryError
from dflash_deploy.model_config import HUB_ID
from dflash_deploy.new_entry import as_entry
from dflash_deploy.reach import Releases, covers, is_version
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.rules import first_release
from dflash_deploy.schedule import SCHEDULE, fault
from dflash_deploy.schema import Draft, Model, Recipe, Span, When
from dflash_deploy.situation import first_to_have
from dflash_deploy.validate import problems
from dflash_deploy.vllm_recipe.arguments import Taken, backend, plain, take
from dflash_deploy.vllm_recipe.modes import SPECULATION, Mode, dflash_modes, features, part
from dflash_deploy.vllm_recipe.rest import NO_PLACE, LeftOut, Path, rest, words
from dflash_deploy.yaml_source import one_line

A_RECIPE = "a file of vllm-project/recipes, from its models/ folder"
_TAKEN = ("method", "model", "num_speculative_tokens", SCHEDULE)
"""The keys of a speculative config that are always read, and said where they make no sense."""


@dataclass(frozen=True)
class Imported:
    """An overlay made from a recipe, and what of the recipe did not come along."""

    model: Model
    target: str
    file: str
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()
    """What the user should know of what did."""


@dataclass(frozen=True)
class _Served:
    """What a recipe serves unless told otherwise."""

    entry: Entry
    least: str
    """The first release, as it is written."""
    args: tuple[str, ...]
    done: frozenset[Path]
    """The parts of the recipe that this was made of."""


def imported(document: Any, registry: Registry, source: str) -> Imported:
    """The overlay for a recipe's DFlash mode. `source` is how the recipe is called.

    It extends the registry's entry. Where the recipe pins the draft to another revision it takes
    the place of that entry, since an overlay that extends one keeps its drafts.

    Raises RegistryError for a file that is no such recipe, has no DFlash mode, is about a target or
    a draft that the registry does not know, or says what no entry may.
    """
    served, engine = _served(document, registry, source), registry.engines["vllm"]
    modes = list(dflash_modes(document))
    if not modes:
        hint = _add("DRAFT", served.entry.id)
        raise RegistryError(f"{source}: the recipe has no DFlash mode", hint=hint)
    base = take(served.args, served.entry, engine)
    recipes: dict[str, Recipe] = {}
    pins: dict[str, str] = {}
    left = list(base.left)
    done = {*served.done}
    for mode in modes:
        draft = _draft(served.entry, mode, source)
        if draft.id in recipes:
            continue  # said by `rest`: one recipe would hide the other
        own = take(mode.args, served.entry, engine)
        spans, unlike = _schedule(mode)
        when, older = _when(served, draft, engine, source, scheduled=bool(spans))
        both = Taken(base.values | own.values, base.flags | own.flags)
        recipes[draft.id] = replace(_recipe(mode, draft, both, when, source), schedule=spans)
        if plain(mode.config.get("revision")):
            pins[draft.id] = mode.config["revision"]
        left += [*own.left, *older, *unlike, *_not_in_an_entry(mode)]
        done.add((*mode.path, "args"))
        if "default" in words(part(document, *mode.path).get("variants")):
            done.add((*mode.path, "variants"))
    for path, args in features(document):
        left += take(args, served.entry, engine).left
        done.add(path)
    left += rest(document, done)
    return _laid_down(served.entry, [*recipes.values()], pins, left, registry)


def _served(document: Any, registry: Registry, source: str) -> _Served:
    """The checkpoint of the default variant, which the recipe's own name is another for."""
    model, variant = part(document, "model"), part(document, "variants", "default")
    name, own = model.get("model_id"), variant.get("model_id")
    if not name or not isinstance(name, str):
        raise RegistryError(
            f"{source}: no recipe of vllm-project/recipes: it has no `model.model_id`",
            hint=A_RECIPE,
        )
    own = own if own and isinstance(own, str) else name
    entry = _entry(registry, own) or _entry(registry, name)
    if entry is None:
        drafts = (str(mode.config.get("model", "DRAFT")) for mode in dflash_modes(document))
        raise RegistryError(
            f"{source}: {one_line(own)} is not in the registry",
            hint=_add(next(drafts, "DRAFT"), own),
        )
    parts: list[tuple[Path, str, Mapping[str, Any]]] = [(("model",), "base_args", model)]
    if _entry(registry, own):
        parts.append((("variants", "default"), "extra_args", variant))
    args: list[str] = []
    done: set[Path] = set()
    least = None
    for path, key, said in parts:
        least = said.get("min_vllm_version") or least
        args += words(said.get(key))
        done.add((*path, "min_vllm_version"))
        done |= {(*path, each) for each, kind in (("model_id", str), (key, list))
                 if isinstance(said.get(each), kind)}  # fmt: skip
    return _Served(entry, str(least or ""), tuple(args), frozenset(done))


def _entry(registry: Registry, name: object) -> Entry | None:
    """The entry of a target; a draft's name stands for its target elsewhere, and not here."""
    found = registry.names.get(name.lower()) if isinstance(name, str) else None
    entry = registry.entries[found] if found else None
    drafts = [draft.id.lower() for draft in entry.model.drafts] if entry else []
    return None if str(name).lower() in drafts else entry


def _draft(entry: Entry, mode: Mode, source: str) -> Draft:
    """The registry's own draft that a mode names."""
    name = str(mode.config.get("model", ""))
    draft = next((d for d in entry.model.drafts if d.id.lower() == name.lower()), None)
    if draft is None:
        raise RegistryError(
            f"{source}: {entry.id} has no draft {one_line(name) or '(none is named)'} in the"
            " registry",
            hint=_add(name or "DRAFT", entry.id),
        )
    return draft


def _add(draft: str, target: str) -> str:
    """Names that are no hub ids are not repeated: a recipe from elsewhere may name a folder."""
    names = (name if HUB_ID.fullmatch(name) else mark
             for name, mark in ((draft, "DRAFT"), (target, "TARGET")))  # fmt: skip
    own, its = names
    return f"{shlex.join(('dflash', 'registry', 'add', own, '--target', its))}, then this again"


def _not_in_an_entry(mode: Mode) -> Iterator[LeftOut]:
    for key, value in mode.config.items():
        if key in _TAKEN or (key in ("attention_backend", "revision") and plain(value)):
            continue
        yield LeftOut(f"{SPECULATION[0]} {key}", json.dumps(value), NO_PLACE)


def _schedule(mode: Mode) -> tuple[list[Span], list[LeftOut]]:
    """The mode's draft tokens by load, or why they are none."""
    said, most = mode.config.get(SCHEDULE), mode.config.get("num_speculative_tokens")
    if said is None:
        return [], []
    try:
        spans = convert(said, list[Span])
    except ValidationError:
        wrong: str | None = "it is no list of ranges"
    else:
        wrong = fault(spans, most if isinstance(most, int) else None)
        if wrong is None:
            return spans, []
    return [], [LeftOut(f"{SPECULATION[0]} {SCHEDULE}", json.dumps(said), wrong or "")]


def _when(
    served: _Served, draft: Draft, engine: Engine, source: str, *, scheduled: bool
) -> tuple[When, list[LeftOut]]:
    """The releases that a recipe is for, where it asks for more than this pair does."""
    floor = first_release(engine, served.entry.target, draft)
    if floor is None:
        raise RegistryError(
            f"{source}: no known release of vLLM serves {draft.id}",
            hint=f"dflash show {draft.id}",
        )
    when, least = When(engine="vllm"), served.least
    follows = first_to_have(engine, "schedule", floor.version) if scheduled else floor.version
    if scheduled:
        when = When(engine="vllm", version=f">={follows}")
    if least and not is_version(least):
        return when, [LeftOut("min_vllm_version", least, "it is no release")]
    if least and Version(least) < Version(floor.version):
        why = f"this pair needs {floor.version}: before it, {floor.because}"
        return when, [LeftOut("min_vllm_version", least, why)]
    if least and Version(least) > Version(follows):
        return When(engine="vllm", version=f">={least}"), []
    return when, []


def _recipe(mode: Mode, draft: Draft, taken: Taken, when: When, source: str) -> Recipe:
    tokens, name = mode.config.get("num_speculative_tokens"), mode.path[-1]
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        said = (
            f"{json.dumps(tokens)} is no number of tokens"
            if tokens is not None
            else "it is not said"
        )
        raise RegistryError(
            f"{source}: mode {one_line(name)}: num_speculative_tokens: {one_line(said)}",
            hint=f"{(draft.block_size or 16) - 1}, for blocks of {draft.block_size or 16}",
        )
    draft_backend = mode.config.get("attention_backend")
    return Recipe(
        name=re.sub(r"[^A-Za-z0-9_.-]+", "-", f"imported-{name}"),
        when=when,
        draft=draft.id,
        block_size=tokens + 1,
        draft_attention_backend=backend(draft_backend) if plain(draft_backend) else None,
        flags=[*taken.flags.values()],
        why=f"{tokens} draft tokens are blocks of {tokens + 1}; taken from a recipe of vLLM",
        source=source,
        **taken.values,
    )


def _laid_down(
    entry: Entry, recipes: list[Recipe], pins: Mapping[str, str], left: list[LeftOut],
    registry: Registry,
) -> Imported:  # fmt: skip
    new = {name: pin for name, pin in pins.items() if entry.draft(name).revision != pin}
    if new:
        whole, file = _rewritten(entry, recipes, new, registry), f"models/{entry.id}.yaml"
        wrong = problems([as_entry(entry.id, whole, file, None)], registry.engines)
        if not wrong:
            return Imported(whole, entry.id, file, _once(left), tuple(_notes(entry, new)))
        why = f"{wrong[0].where}: {wrong[0].message}"
        left += [LeftOut(f"{SPECULATION[0]} revision", pin, why) for pin in new.values()]
    model, file = Model(extends=entry.id, recipes=recipes), f"models/{entry.id}-recipe.yaml"
    alone = dataclasses.replace(entry, model=replace(entry.model, recipes=[]))
    for problem in problems([as_entry(entry.id, model, file, alone)], registry.engines):
        raise RegistryError(
            one_line(f"{recipes[0].source}: {problem.where}: {problem.message}"),
            hint="change it in a copy of the recipe, then import that",
        )
    return Imported(model, entry.id, file, _once(left))


def _rewritten(
    entry: Entry, recipes: list[Recipe], pins: Mapping[str, str], registry: Registry
) -> Model:
    """The whole entry with the drafts at other revisions, and no recipe that is never reached."""
    releases = Releases.of(registry.engines)
    reached = [
        old for old in entry.model.recipes
        if not any(new.draft == entry.draft(old.draft).id and covers(new.when, old.when, releases)
                   for new in recipes)
    ]  # fmt: skip
    drafts = [replace(each, revision=pins.get(each.id, each.revision))
              for each in entry.model.drafts]  # fmt: skip
    return replace(entry.model, drafts=drafts, recipes=[*recipes, *reached])


def _notes(entry: Entry, pins: Mapping[str, str]) -> Iterator[str]:
    for name, pin in pins.items():
        old = entry.draft(name).revision
        yield (
            f"{name} is pinned to {pin}; what is known of it is of"
            f" {old or 'a revision that is not known'}"
        )
    yield f"the entry for {entry.id} is copied whole: later corrections of it do not arrive"


def _once(left: list[LeftOut]) -> tuple[LeftOut, ...]:
    return tuple(dict.fromkeys(left))
