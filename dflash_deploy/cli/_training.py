"""From the options of `dflash train` to a draft in the registry."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy import hardware
from dflash_deploy.cli import _entry_file, _output
from dflash_deploy.cli._configs import LOCAL, from_folder, from_hub, in_cache, slug
from dflash_deploy.cli._training_entry import others
from dflash_deploy.cli._training_process import work
from dflash_deploy.cli._training_start import going_on
from dflash_deploy.cli._training_told import told, told_estimate
from dflash_deploy.errors import DFlashError, DoesNotFit, Unsupported, UsageError
from dflash_deploy.model_config import HUB_ID
from dflash_deploy.plan import Endpoint, without_password
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import Target
from dflash_deploy.target_config import read_target
from dflash_deploy.train import estimate, prompts, recipe
from dflash_deploy.train.recipe import Recipe

MOST_NAMES = 8
"""Of a server that serves many."""


@dataclass(frozen=True)
class Wanted:
    """The options as typed; `values` go into the recipe, None for its default."""

    target: str
    output: Path | None
    registry: Path | None
    weights: str | None
    trust_remote_code: bool
    draft_id: str | None
    start: str | None
    dry_run: bool
    json: bool
    values: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A target: what is known of it, and the folder that its weights are in, if they have one."""

    id: str
    target: Target
    revision: str | None = None
    entry: Entry | None = None
    folder: Path | None = None


def train(wanted: Wanted) -> None:
    registry = _entry_file.below(wanted.registry)
    found = find(registry, wanted.target)
    folder = wanted.output or Path(f"dflash-train-{found.id.rpartition('/')[2].lower()}")
    plan = planned(wanted, found, folder)
    if wanted.start is not None:
        plan = going_on(
            registry, wanted.start, found.target, plan, wanted.values, whole=not wanted.dry_run
        )
    check(folder, plan, found.target)
    finished = (folder / recipe.MEASURED).exists()
    check_names(registry, plan, found, folder, finished=finished)
    if wanted.dry_run and plan.path:
        plan = msgspec.structs.replace(plan, prompts=len(prompts.chosen(plan)))
    foreseen = _foreseen(registry, plan, found)
    if wanted.dry_run:
        if foreseen is None:
            raise Unsupported(
                f"the sizes of {found.id} are not known well enough to estimate anything",
                hint="its weights belong beside its config.json, as model.safetensors"
                if found.folder
                else "the same command without --dry-run",
            )
        if plan.url is not None:
            at_server(plan)
        told_estimate(found.id, plan, foreseen, json=wanted.json)
        try:
            check_disk(folder, plan, foreseen)
        except DoesNotFit as error:  # the run may be meant for another machine
            _output.warning(error.message)
        return
    begun(folder, plan)
    check_disk(folder, plan, foreseen)
    if plan.url is not None and not answered(folder):
        plan = msgspec.structs.replace(plan, **at_server(plan))
    if recipe.read(folder) is not None:
        _output.note(
            f"the run in {folder} has its draft"
            if finished
            else f"going on with the run in {folder}"
        )
    plan = with_weights(registry, wanted, found, folder, plan)
    with _written(folder):
        recipe.begin(folder, plan)
    work(folder)
    told(wanted, plan, folder, found.folder, finished=finished)


def find(registry: Registry, name: str) -> Found:
    """The target in a folder, by alias or id, or on the hub. Raises UnknownModel and others."""
    path = Path(name)
    # first: a run in `org/model` makes an entry of that id, and the same command comes again
    if (path / "config.json").is_file():
        folder = path.resolve()
        source = from_folder(path, in_cache(path) or called(folder))
    elif name.lower() in registry.names:
        entry = registry.find(name)
        return Found(entry.id, entry.target, entry=entry)
    elif HUB_ID.fullmatch(name) and not path.exists():
        source, folder = from_hub(name), None
    elif path.is_dir():
        raise UsageError(f"{name} has no config.json", hint="the folder of a target's weights")
    elif name.startswith(("/", ".", "~")):
        raise UsageError(f"no folder {name}", hint="a target's folder, an alias or a hub id")
    else:
        registry.find(name)  # raises, with a suggestion
        raise AssertionError(name)
    read = read_target(source.config, source.id, revision=source.revision, stored=source.stored)
    return Found(source.id, read.target, source.revision, folder=folder)


def called(folder: Path) -> str:
    """The hub id of a target that is a folder: the last two parts of its path."""
    return f"{slug(folder.parent.name, LOCAL)}/{slug(folder.name, 'target')}"


def planned(wanted: Wanted, found: Found, folder: Path) -> Recipe:
    """The recipe as the options say, before anything is fetched."""
    if found.target.remote_code == "required" and not wanted.trust_remote_code:
        raise Unsupported(
            f"{found.id} needs its repository's own code", hint="--trust-remote-code runs it"
        )
    check_weights(found, wanted.weights)
    where = slug(Path(os.path.realpath(folder)).name, LOCAL)
    draft = wanted.draft_id or f"{where}/{found.id.rpartition('/')[2]}-DFlash"
    if not HUB_ID.fullmatch(draft):
        raise UsageError(f"`{draft}` is no hub id", hint="--id OWNER/NAME")
    given = {name: value for name, value in wanted.values.items() if value is not None}
    plan = Recipe(
        target=found.id, model=str(found.folder or found.id), revision=found.revision,
        trust_remote_code=wanted.trust_remote_code, draft=draft, weights=wanted.weights, **given,
    )  # fmt: skip
    if plan.prompts <= plan.held_out:
        raise UsageError(
            f"{plan.held_out} of {plan.prompts} prompts are held out: none is left",
            hint=f"--held-out {max(1, plan.prompts // 4)}",
        )
    if plan.served_name and not plan.url:
        raise UsageError(
            f"--served-name {plan.served_name}: there is no --url, the target answers here",
            hint="--url http://localhost:8000, or leave --served-name out",
        )
    if plan.url and without_password(plan.url) != plan.url:
        raise UsageError(
            "the URL holds a password, and the recipe is a file: it would stand there",
            hint="export DFLASH_API_KEY=... and leave it out of --url",
        )
    return plan


def check(folder: Path, plan: Recipe, target: Target) -> None:
    """What is wrong with the options can be said before anything is fetched, made or asked."""
    before = recipe.read(folder)
    if before is not None:
        recipe.check(folder, before, msgspec.structs.replace(plan, weights=before.weights))
    elif (left := folder / prompts.FILE).exists():
        raise UsageError(
            f"{left} is there and no run is: its prompts would be taken for this one's",
            hint="another --output",
        )
    draft = recipe.draft_folder(folder, plan)
    if plan.start is not None and Path(plan.start) == draft.resolve():
        raise UsageError(
            f"--start {plan.start} is where this run's own draft comes to stand",
            hint="another --output, or --id OWNER/NAME of another name",
        )
    mask, known = plan.mask_token_id, target.vocab_size
    if mask is not None and known is not None and mask >= known:
        raise UsageError(
            f"--mask-token {mask}: the target has {known} tokens", hint=recipe.MASK_HINT
        )


def check_names(
    registry: Registry, plan: Recipe, found: Found, folder: Path, *, finished: bool
) -> None:
    """What a new run is called is not called so already. One that was begun cannot be renamed."""
    other = others(
        registry, plan, recipe.draft_folder(folder, plan), found.folder, finished=finished
    )
    if other and recipe.read(folder) is None:
        raise other


def begun(folder: Path, plan: Recipe) -> None:
    """The run's folder; what can be wrong with new prompts is said before anything is fetched."""
    with _written(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / prompts.FILE).exists():
        prompts.chosen(plan)


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", hint="another --output"
        ) from error


def answered(folder: Path) -> bool:
    return all((folder / name).exists() for name in recipe.ANSWERS)


def with_weights(
    registry: Registry, wanted: Wanted, found: Found, folder: Path, plan: Recipe
) -> Recipe:
    """The recipe with the weights that were found, fetched if they had to be."""
    from dflash_deploy.cli import _planning, _running

    if found.entry is None:
        return plan
    before = recipe.read(folder)
    name = wanted.weights or (before.weights if before else None)
    asked = _planning.Wanted(found.id, weights=name, registry=wanted.registry)
    check_weights(found, name)
    chosen, path = _running.fetch_target(registry, asked)
    return msgspec.structs.replace(plan, model=str(path), weights=chosen.weights)


def check_weights(found: Found, name: str | None) -> None:
    known = [each.name for each in found.target.weights]
    if found.entry is not None and name is not None and name not in known:
        raise UsageError(f"{found.id} has no weights `{name}`", hint=f"--weights {known[0]}")


def at_server(plan: Recipe) -> dict[str, str]:
    """The server's address and the target's name there. Raises LaunchError, UsageError."""
    from dflash_deploy.cli._options import api_key_env
    from dflash_deploy.measure.connection import base_of, served_models

    server = Endpoint(base_of(plan.url or ""), plan.served_name or "", "vllm", None, api_key_env())
    names = served_models(server)
    own = [name for name in names if name.lower() == plan.target.lower()]
    first = (own or names)[0]
    if plan.served_name and plan.served_name not in names:
        raise UsageError(
            f"{server.address} serves {listed(names)}, and not {plan.served_name}",
            hint=f"--served-name {shlex.quote(first)}",
        )
    if not (own or plan.served_name):
        _output.warning(
            f"{server.address} serves {listed(names)}: a draft learns from the answers of {first},"
            f" and is used with {plan.target}"
        )
    return {"url": server.base_url, "served_name": plan.served_name or first}


def listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def check_disk(folder: Path, plan: Recipe, foreseen: estimate.Estimate | None) -> None:
    """Raises DoesNotFit for what is left of the run: a draft that is there needs no more room."""
    from dflash_deploy.hub import disk

    if foreseen is None or recipe.draft_folder(folder, plan).exists():
        return
    there = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    needed, free = int(foreseen.disk_bytes) - there, disk.free(folder.absolute())
    if needed > free:
        begun = recipe.read(folder) is not None
        raise DoesNotFit(
            f"the run takes about {disk.size(needed)}, and {disk.size(free)} are free at {folder}",
            hint="make room; the same command goes on"
            if begun
            else "--output FOLDER on a larger disk",
        )


def _foreseen(registry: Registry, plan: Recipe, found: Found) -> estimate.Estimate | None:
    size = estimate.size_of(found.target)
    if size is None:
        return None
    try:
        cards = hardware.probe(registry.gpus).cards
    except DFlashError:
        cards = ()
    return estimate.estimate(plan, size, estimate.GPU if cards else estimate.CPU)
