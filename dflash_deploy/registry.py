"""The registry: entries read, layered and looked up. Shipped files first, the user's on top."""

from __future__ import annotations

import math
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import RegistryError, UnknownModel, unread
from dflash_deploy.named_file import start_of
from dflash_deploy.overlaid import over_drafts, still_true
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import (
    Draft,
    EngineName,
    Floor,
    Gpu,
    GpuCatalogue,
    Model,
    Recipe,
    Target,
    Weights,
)

T = TypeVar("T")

LARGEST = 1 << 20
"""Bytes of one file; the longest shipped one has a fiftieth of it."""
MEND = "mend that line, then: dflash registry check"
INDEX = "index.json"
"""In a wheel: every shipped file, already checked and parsed, so that `list` reads no YAML."""


@dataclass(frozen=True)
class Entry:
    """One target with everything known about serving it, and the files that said so."""

    id: str
    model: Model
    files: tuple[str, ...]
    layer: str
    below: Entry | None = None
    """The entry that this one extends."""

    @property
    def target(self) -> Target:
        if self.model.target is None:
            raise RegistryError(f"{self.files[0]}: an entry needs a `target`, or `extends` one")
        return self.model.target

    @property
    def name(self) -> str:
        """What a user types for it: its first alias."""
        return self.model.aliases[0] if self.model.aliases else self.id

    @property
    def stands_in(self) -> bool:
        """Whether it stands under its draft's id, because that of its target is not known."""
        its_own = any(draft.id == self.id for draft in self.model.drafts)
        return its_own and self.model.unservable is not None

    @property
    def whom(self) -> str:
        """What its drafts propose for, in a sentence."""
        return "a target that is not known here" if self.stands_in else self.id

    @property
    def own_recipes(self) -> list[Recipe]:
        """Those of its own file, without the ones of the entry it extends."""
        inherited = len(self.below.model.recipes) if self.below else 0
        return self.model.recipes[: len(self.model.recipes) - inherited]

    @property
    def own_drafts(self) -> list[Draft]:
        """Those of its own file, likewise."""
        inherited = self.below.model.drafts if self.below else []
        return [draft for draft in self.model.drafts if draft not in inherited]

    @property
    def own_weights(self) -> list[Weights]:
        """Its target's, unless the target is that of the entry it extends."""
        target = self.model.target
        inherited = self.below is not None and self.below.model.target is target
        return [] if target is None or inherited else target.weights

    @property
    def chain(self) -> Iterator[Entry]:
        """This entry, then the one it extends, down to the shipped one."""
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.below

    def floors(self, engine: EngineName, draft: Draft) -> list[Floor]:
        """What this engine's release must be at least for that draft."""
        return [
            floor for floor in self.model.floors
            if floor.engine == engine and floor.draft in (None, draft.id)
        ]  # fmt: skip

    def draft(self, draft_id: str | None) -> Draft:
        if draft_id is None:
            return self.model.drafts[0]
        for draft in self.model.drafts:
            if draft.id == draft_id:
                return draft
        raise RegistryError(
            f"{self.files[0]}: no draft `{draft_id}` in {self.id}", hint="dflash registry check"
        )


@dataclass(frozen=True)
class Registry:
    entries: dict[str, Entry]
    engines: dict[str, Engine]
    gpus: tuple[Gpu, ...]
    names: dict[str, str] = field(default_factory=dict)
    """Every alias, target id and draft id in lower case, to the entry's id."""

    def find(self, name: str) -> Entry:
        """Exactly one entry by alias, target id or draft id (case aside), or a suggestion."""
        found = self.names.get(name.lower())
        if not name.strip():
            raise UnknownModel("a model without a name", hint="dflash list")
        if found is None:
            raise UnknownModel(f"no model `{name}` in the registry", hint=self._suggestion(name))
        return self.entries[found]

    def _suggestion(self, name: str) -> str:
        import difflib

        wanted = name.lower()
        close = difflib.get_close_matches(wanted, self.names, n=3, cutoff=0.6)
        inside = [
            known for known in self.names if wanted in known or wanted in known.split("/")[-1]
        ]
        ids = dict.fromkeys(self.names[known] for known in [*inside, *close])
        if not ids:
            return "dflash list"
        return "did you mean " + ", ".join(self.entries[i].name for i in list(ids)[:3]) + "?"


def load(extra: Path | None = None, *, user: bool = True) -> Registry:
    """Read the shipped registry and the layers over it: system, user, and `extra` last."""
    root = registry_root()
    packed = _shipped(root)
    entries = {
        name: Entry(name, model, (f"{root / 'models' / name}.yaml",), "shipped")
        for name, model in packed.models.items()
    }
    seen: set[str] = set()
    for layer, folder in _overlays(extra, user=user):
        if (real := os.path.realpath(folder)) in seen:
            continue  # `--registry` may name the user's own
        seen.add(real)
        for entry in _in_layer(folder / "models", layer):
            entries = _lay_over(entries, entry)
        entries = _targets_found(entries, layer)
    names = _index_names(entries.values())
    return Registry(entries, {**packed.engines}, tuple(packed.gpus), names)


def _in_layer(folder: Path, layer: str) -> list[Entry]:
    """The entries of one folder, those first that others of it may extend.

    A folder from elsewhere may not lead out of itself: what a link names would be read, and
    quoted in an error. One's own may be a collection of links.
    """
    paths = sorted(_files(folder))
    home = os.path.realpath(folder)
    for path in paths if layer == "extra" else ():
        if not Path(os.path.realpath(path)).is_relative_to(home):
            raise RegistryError(
                f"{path}: leads out of its registry", hint="put the file itself there"
            )
    found = [
        Entry(path.relative_to(folder).with_suffix("").as_posix(), read(path, Model),
              (str(path),), layer)
        for path in paths
        if not path.name.startswith(".") and _regular(path)  # an editor's lock, a pipe
    ]  # fmt: skip
    return sorted(found, key=lambda entry: entry.model.extends is not None)


def _files(folder: Path) -> Iterator[Path]:
    """What may be entries. A folder that cannot be looked into would hide some, and is an error.

    So is a name that would break a line or steer a terminal wherever the file is spoken of.
    """
    for place, _, names in os.walk(folder, onerror=_closed):
        for name in names:
            if name.endswith(".yaml"):
                path = Path(place, name)
                if not str(path.relative_to(folder)).isprintable():
                    raise _unreadable(path, "its name has signs that cannot be printed")
                yield path


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(path, unread(error)) from error


def _closed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise _unreadable(Path(error.filename), unread(error)) from error


def _unreadable(path: Path, why: str) -> RegistryError:
    hint = f"ls -lb {shlex.quote(_legible(path.parent))}"
    return RegistryError(f"{_legible(path)}: cannot be read: {why}", hint=hint)


def _legible(named: object) -> str:
    """A path or another's word in a message; the module that knows how is for errors alone."""
    from dflash_deploy.yaml_source import one_line

    return one_line(str(named))


@cache
def _shipped(root: Path) -> Packed:
    """Read once: a command asks for it again and again, and it stays as it is meanwhile."""
    index = root / INDEX
    return msgspec.json.decode(index.read_bytes(), type=Packed) if index.is_file() else pack(root)


class Packed(msgspec.Struct, frozen=True):
    """The shipped registry as one document."""

    engines: dict[str, Engine]
    gpus: list[Gpu]
    models: dict[str, Model]


def pack(root: Path) -> Packed:
    """Read a whole registry folder from its YAML."""
    engines = {path.stem: read(path, Engine) for path in sorted((root / "engines").glob("*.yaml"))}
    models = {
        path.relative_to(root / "models").with_suffix("").as_posix(): read(path, Model)
        for path in sorted((root / "models").rglob("*.yaml"))
    }
    return Packed(engines, read(root / "gpus.yaml", GpuCatalogue).gpus, models)


def read(path: Path, type_: type[T]) -> T:
    """One file as a checked value; an error names the file, the line and the field."""
    from dflash_deploy.yaml_source import line_of, read_yaml, text_of, wrong

    name = str(path)
    try:
        data = start_of(path, LARGEST + 1)  # a device says nothing of its size
    except OSError as error:
        raise _unreadable(path, unread(error)) from error
    if len(data) > LARGEST:
        raise wrong(name, None, "", f"over {LARGEST >> 20} MiB is no registry file")
    text = text_of(data, name, MEND)
    document: Any = read_yaml(text, name, MEND)
    if where := next(_unreal(document, "$"), None):  # every bound lets a NaN pass
        field_name = where.removeprefix("$").lstrip(".")
        raise wrong(name, line_of(text, where), field_name, "is no finite number", MEND)
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `")
        field_path = where.rstrip("`") or "$"
        if unknown := re.search(r"unknown field `(.*)`", message):
            field_path += f".{unknown[1]}"
        field_name = field_path.removeprefix("$").lstrip(".") or "document"
        raise wrong(
            name, line_of(text, field_path), field_name, message, "dflash registry schema"
        ) from error


def _unreal(value: Any, where: str) -> Iterator[str]:
    """Where a document has `.nan` or `.inf`."""
    if isinstance(value, float) and not math.isfinite(value):
        yield where
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _unreal(part, f"{where}.{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _unreal(part, f"{where}[{number}]")


def user_folder() -> Path:
    """Where a user's own entries are: `$XDG_CONFIG_HOME/dflash/registry`."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "dflash" / "registry"


def _overlays(extra: Path | None, *, user: bool) -> Iterator[tuple[str, Path]]:
    own = (("system", Path("/etc/dflash/registry")), ("user", user_folder())) if user else ()
    for layer, folder in own:
        if os.path.isdir(folder):  # noqa: PTH112 - Path's raises in a home one may not enter
            yield layer, folder
    if extra is not None:
        if not present(extra):
            name = _legible(extra)
            raise RegistryError(
                f"{name}: no such registry folder", hint=f"mkdir -p {shlex.quote(f'{name}/models')}"
            )
        yield "extra", extra


def present(folder: Path) -> bool:
    """Whether a registry's folder is there. Raises RegistryError for a file, or a closed one."""
    try:
        if stat.S_ISDIR(folder.stat().st_mode):
            return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(folder, unread(error)) from error
    raise _unreadable(folder, "it is a file, and a registry is a folder")


def _lay_over(entries: dict[str, Entry], over: Entry) -> dict[str, Entry]:
    """An overlay replaces an entry, or puts its recipes and evidence in front of one it extends.

    The target, floors and cautions of the extended entry stay: later fixes to them still arrive.
    A draft of the same id takes the place of the one below: at another revision, it is another.
    """
    model, file = over.model, over.files[0]
    if model.extends is None:
        return {**entries, over.id: over}
    below = entries.get(model.extends)
    if below is None:
        named = [e.id for e in entries.values() if model.extends in e.model.aliases]
        raise RegistryError(
            f"{file}: extends `{_legible(model.extends)}`, which is no target of a layer below",
            hint=f"extends: {named[0]}" if named else "dflash list",
        )
    kept = (model.target, model.note, model.unservable)
    if model.floors or any(value is not None for value in kept):
        raise RegistryError(
            f"{file}: an entry that extends another keeps its target, floors and notes",
            hint="leave them out, or leave `extends` out to replace the whole entry",
        )
    merged = msgspec.structs.replace(
        below.model,
        aliases=[*below.model.aliases, *model.aliases],
        drafts=over_drafts(below.model.drafts, model.drafts),
        recipes=[*model.recipes, *below.model.recipes],
        evidence=[*model.evidence, *still_true(below.model, model.drafts)],
        cautions=[*below.model.cautions, *model.cautions],
    )
    entry = replace(below, model=merged, files=(file, *below.files), layer=over.layer, below=below)
    return {**entries, below.id: entry}


def _targets_found(entries: dict[str, Entry], layer: str) -> dict[str, Entry]:
    """Without those below that stood in for a target, where an entry of this layer brings it."""
    brought = {
        draft.id.lower() for entry in entries.values()
        if entry.layer == layer and not entry.stands_in for draft in entry.model.drafts
    }  # fmt: skip
    return {
        name: entry for name, entry in entries.items()
        if entry.layer == layer or not entry.stands_in or name.lower() not in brought
    }  # fmt: skip


def _index_names(entries: Iterable[Entry]) -> dict[str, str]:
    names: dict[str, str] = {}
    known: dict[str, Entry] = {}
    for entry in entries:
        known[entry.id] = entry
        for name in (entry.id, *entry.model.aliases, *(draft.id for draft in entry.model.drafts)):
            owner = names.setdefault(name.lower(), entry.id)
            if owner != entry.id:
                first = known[owner]
                blamed, other = (entry, first) if entry.layer != "shipped" else (first, entry)
                raise RegistryError(
                    f"{blamed.files[0]}: `{_legible(name)}` already names {other.id}",
                    hint="another alias",
                )
    return names
