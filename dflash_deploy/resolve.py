"""Which draft, release, block size and limits a request gets, and why. Pure: no I/O.

A question is answered once, by one function below, and leaves a `Choice` that says why; the
engine adapters only write the answers down in their engine's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from dflash_deploy.errors import EngineError, RegistryError, Unsupported, UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import (
    Draft,
    Engine,
    EngineName,
    KvDtype,
    Parsers,
    Recipe,
    Status,
    Thinking,
    Weights,
    When,
)
from dflash_deploy.status import status
from dflash_deploy.validate import problems

DEFAULT_CONCURRENCY = 64
EMBEDDED_CONCURRENCY = 4
GB = 2**30 / 10**9
DEFAULT_CONTEXT = 32768
"""Long enough for most chats, short enough to start on the smallest documented card."""
OWN_OPTIONS = {
    "host": "--host",
    "port": "--port",
    "served_names": "the entry's aliases",
    "speculation": "--block-size",
    "algorithm": "--block-size",
    "block_size": "--block-size",
    "draft": "an overlay entry with that draft",
    "config_file": "--host, --port and the other options",
}
"""Settings that the rest of the command depends on, and how they are said to it."""


class Choice(msgspec.Struct, frozen=True):
    """One decision, the reason for it, and where the reason comes from."""

    name: str
    value: str
    why: str
    source: str | None = None


class Rejected(msgspec.Struct, frozen=True):
    """A recipe that did not apply, and the condition that failed."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None leaves the choice to the registry."""

    model: str
    engine: EngineName
    engine_version: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    block_size: int | None = None
    concurrency: int | None = None
    context: int | None = None
    tensor_parallel: int | None = None
    kv_dtype: KvDtype = "auto"
    weights: str | None = None
    target_path: str | None = None
    """Where the target's weights are already, for the engine that does not fetch them itself."""
    trust_remote_code: bool = False
    api_key_env: str | None = None
    """Name of the environment variable that holds the key the server shall ask for."""
    engine_args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """Every answer, still in the words of the registry."""

    request: Request
    entry: Entry
    engine: Engine
    version: Version
    hardware: Hardware
    recipe: Recipe
    status: Status
    draft: Draft
    weights: Weights
    block_size: int
    concurrency: int
    context: int
    tensor_parallel: int
    thinking: Thinking | None
    parsers: Parsers | None
    choices: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    warnings: tuple[str, ...]


def resolve(registry: Registry, request: Request, hardware: Hardware) -> Resolution:
    """Answer every question of a request, in the order in which the answers depend on each other.

    Raises UnknownModel, UsageError (a value without meaning), Unsupported (no recipe, or not on
    this hardware) and EngineError (a release below the entry's floor).
    """
    entry = registry.find(request.model)
    check_foreign(entry, registry)
    engine = registry.engines[request.engine]
    version, release = choose_version(entry, engine, request)
    thinking, mode = choose_thinking(entry)
    recipe, rejected = choose_recipe(entry, request, version, hardware, thinking)
    draft = entry.draft(recipe.draft)
    weights, source = choose_weights(entry, request)
    block_size, block = choose_block_size(draft, recipe, request)
    concurrency, load = choose_concurrency(recipe, request)
    context, length = choose_context(entry, request)
    tensor_parallel, cards = choose_tensor_parallel(entry, request, hardware)
    check_remote_code(entry, request)
    check_engine_args(engine, request)
    seen = status(entry, recipe, weights.name)
    return Resolution(
        request=request, entry=entry, engine=engine, version=version, hardware=hardware,
        recipe=recipe, status=seen, draft=draft, weights=weights, block_size=block_size,
        concurrency=concurrency, context=context, tensor_parallel=tensor_parallel,
        thinking=thinking, parsers=find_parsers(entry, request.engine),
        choices=(Choice("recipe", recipe.name, reason(recipe, request), recipe.source),
                 release, source, block, load, length, cards, *([mode] if mode else [])),
        rejected=tuple(rejected),
        warnings=tuple(warnings(entry, engine, version, request, seen)),
    )  # fmt: skip


def check_foreign(entry: Entry, registry: Registry) -> None:
    """An entry from elsewhere is not trusted: nothing of it is used while anything is wrong."""
    if entry.layer == "shipped":
        return
    for problem in problems([entry], registry.engines):
        raise RegistryError(str(problem), hint="dflash registry check")


def choose_version(entry: Entry, engine: Engine, request: Request) -> tuple[Version, Choice]:
    """The release asked for or found, or the newest known; never one below the entry's floor."""
    newest = engine.releases[-1].version
    try:
        version = Version(request.engine_version or newest)
    except InvalidVersion as error:
        raise UsageError(
            f"`{request.engine_version}` is not a release of {request.engine}",
            hint=f"--engine-version {newest}",
        ) from error
    floors = [floor for floor in entry.model.floors if floor.engine == request.engine]
    for floor in floors:
        if version < Version(floor.version):
            raise EngineError(
                f"{request.engine} {version} is too old for {entry.name}, which needs"
                f" {floor.version}: {floor.because}",
                hint=f"uv pip install '{engine.distribution}=={newest}'",
            )
    if version < Version(engine.first_release):
        raise EngineError(
            f"{request.engine} {version} has no DFlash: {engine.first_release} is the first to",
            hint=f"uv pip install '{engine.distribution}=={newest}'",
        )
    why = "asked for, or found on this machine" if request.engine_version else "the newest known"
    needs = "; ".join(f"at least {floor.version}: {floor.because}" for floor in floors)
    source = floors[0].source if floors else None
    return version, Choice(
        "engine_version", str(version), f"{why}; {needs}" if needs else why, source
    )


def default_engine(entry: Entry) -> EngineName:
    """The engine of the entry's first recipe: the registry's order is its preference."""
    for recipe in entry.model.recipes:
        if recipe.when.engine:
            return recipe.when.engine
    return "vllm"


def choose_thinking(entry: Entry) -> tuple[Thinking | None, Choice | None]:
    """The mode the draft was trained for: in the other one its acceptance collapses."""
    modes, draft = entry.target.thinking, entry.model.drafts[0]
    if modes is None:
        return None, None
    if draft.thinking is None:
        return modes.default, Choice("thinking", modes.default, "the chat template's default")
    why = f"{draft.id} was trained with thinking {draft.thinking}, and is accepted less without"
    return draft.thinking, Choice("thinking", draft.thinking, why)


def choose_recipe(
    entry: Entry, request: Request, version: Version, hardware: Hardware, thinking: Thinking | None
) -> tuple[Recipe, list[Rejected]]:
    """The first recipe whose conditions all hold, and why the ones before it do not."""
    rejected: list[Rejected] = []
    for recipe in entry.model.recipes:
        failed = next(mismatches(recipe.when, request, version, hardware, thinking), None)
        if failed is None:
            return recipe, rejected
        rejected.append(Rejected(recipe.name, failed))
    served = sorted({recipe.when.engine for recipe in entry.model.recipes if recipe.when.engine})
    if request.engine not in served and served:
        raise Unsupported(
            f"{entry.name} has no recipe for {request.engine}",
            hint=f"dflash plan {entry.name} --engine {_preferred(served)}",
        )
    raise Unsupported(
        f"no recipe of {entry.name} fits {request.engine} {version} on {hardware}",
        hint=f"dflash show {entry.name}",
        detail="\n".join(f"{item.name}: {item.why}" for item in rejected),
    )


def reason(recipe: Recipe, request: Request) -> str:
    """Why this recipe; a load nobody stated was taken for a low one, and that is said."""
    if recipe.when.concurrency_at_most and request.concurrency is None:
        return f"{recipe.why} (taken for a short queue: --concurrency says yours)"
    return recipe.why


def _preferred(engines: list[EngineName]) -> EngineName:
    return next(engine for engine in get_args(EngineName) if engine in engines)


def mismatches(
    when: When, request: Request, version: Version, hardware: Hardware, thinking: Thinking | None
) -> Iterator[str]:
    """Each condition that does not hold, in words; an unknown card fulfils none about cards."""
    load = request.concurrency or 1  # nobody said: a short queue, where long blocks pay most
    architecture, memory = hardware.architecture, hardware.memory_gib
    if when.engine not in (None, request.engine):
        yield f"for {when.engine}"
    if when.version and not SpecifierSet(when.version).contains(version, prereleases=True):
        yield f"for {when.engine or request.engine} {when.version}, not {version}"
    if when.architecture and architecture not in when.architecture:
        yield f"for {', '.join(when.architecture)}, not {architecture or 'an unknown card'}"
    if when.memory_at_least_gib and (memory or 0) < when.memory_at_least_gib:
        yield f"for cards of {when.memory_at_least_gib} GiB or more"
    if when.concurrency_at_most and load > when.concurrency_at_most:
        yield f"for at most {when.concurrency_at_most} requests at once, not {load}"
    if when.kv_dtype not in (None, request.kv_dtype):
        yield f"for a {when.kv_dtype} KV cache"
    if when.thinking not in (None, thinking):
        yield f"for thinking {when.thinking}"


def choose_weights(entry: Entry, request: Request) -> tuple[Weights, Choice]:
    """The set asked for, or the entry's first."""
    known = entry.target.weights
    if request.weights is None:
        return known[0], Choice("weights", known[0].name, "the entry's first")
    for weights in known:
        if weights.name == request.weights:
            return weights, Choice("weights", weights.name, "asked for")
    names = ", ".join(weights.name for weights in known)
    raise UsageError(
        f"{entry.name} has no weights `{request.weights}`", hint=f"--weights, one of {names}"
    )


def choose_block_size(draft: Draft, recipe: Recipe, request: Request) -> tuple[int, Choice]:
    """A draft serves blocks up to the size it was trained with, never longer ones."""
    if request.block_size is not None:
        if not 2 <= request.block_size <= draft.block_size:
            raise UsageError(
                f"block size {request.block_size} is outside 2..{draft.block_size}:"
                f" {draft.id} was trained with blocks of {draft.block_size}",
                hint=f"--block-size {draft.block_size}",
            )
        return request.block_size, Choice("block_size", str(request.block_size), "asked for")
    if recipe.block_size is not None:
        why = f"recipe {recipe.name}: {recipe.why}"
        return recipe.block_size, Choice("block_size", str(recipe.block_size), why, recipe.source)
    why = f"{draft.id} was trained with it"
    return draft.block_size, Choice("block_size", str(draft.block_size), why)


def choose_concurrency(recipe: Recipe, request: Request) -> tuple[int, Choice]:
    wanted = request.concurrency
    if wanted is None:
        embedded = request.engine == "transformers"
        default = EMBEDDED_CONCURRENCY if embedded else DEFAULT_CONCURRENCY
        wanted, why = default, "a default for mixed load; --concurrency says your own"
    else:
        why = "asked for"
    if recipe.max_concurrency and wanted > recipe.max_concurrency:
        wanted, why = recipe.max_concurrency, f"the most that recipe {recipe.name} allows"
    return wanted, Choice("concurrency", str(wanted), why)


def choose_context(entry: Entry, request: Request) -> tuple[int, Choice]:
    longest = entry.target.context
    if request.context is not None:
        if request.context > longest:
            raise Unsupported(
                f"{entry.name} reads at most {longest} tokens, not {request.context}",
                hint=f"--context {longest}",
            )
        return request.context, Choice("context", str(request.context), "asked for")
    context = min(longest, DEFAULT_CONTEXT)
    why = "all the target can read" if context == longest else "a default; --context raises it"
    return context, Choice("context", str(context), f"{why} (at most {longest})")


def choose_tensor_parallel(
    entry: Entry, request: Request, hardware: Hardware
) -> tuple[int, Choice]:
    """The smallest power of two of cards that holds the documented minimum."""
    minimum = entry.target.minimum
    wanted, why = request.tensor_parallel, "asked for"
    if wanted is None:
        wanted, why = minimum.tensor_parallel, f"documented minimum ({minimum.source})"
        card = hardware.memory_gib
        # published minimums are in GB, cards in GiB
        while card and minimum.memory_gib and wanted * card * GB < minimum.memory_gib:
            wanted *= 2
            why = f"{minimum.memory_gib} GiB in all are the documented minimum ({minimum.source})"
    if hardware.cards and wanted > len(hardware.cards):
        raise Unsupported(
            f"{entry.name} needs {wanted} cards, and there is only {hardware}: {why}",
            hint=f"dflash plan {entry.name} --engine {request.engine}"
            f" --gpu {hardware.cards[0].name}:{wanted}",
        )
    return wanted, Choice("tensor_parallel", str(wanted), why, minimum.source)


def check_remote_code(entry: Entry, request: Request) -> None:
    if entry.target.remote_code == "required" and not request.trust_remote_code:
        raise Unsupported(
            f"{entry.id} runs Python code from its own repository, and you have not agreed to that",
            hint=f"read it on the hub, then: dflash plan {entry.name} --engine {request.engine}"
            " --trust-remote-code",
        )


def check_engine_args(engine: Engine, request: Request) -> None:
    """What this command decides, or reads back, is said to it and not behind its back."""
    given = {word.partition("=")[0] for word in request.engine_args}
    if "--api-key" in given:
        raise UsageError(
            "a key on a command line is there for everybody to see",
            hint="export DFLASH_API_KEY=..., without --api-key",
        )
    for spelling in engine.spellings:
        if spelling.flag in given and spelling.setting in OWN_OPTIONS:
            raise UsageError(
                f"{spelling.flag} after `--` would contradict the plan",
                hint=f"{OWN_OPTIONS[spelling.setting]}, before the `--`",
            )


def find_parsers(entry: Entry, engine: EngineName) -> Parsers | None:
    return next((item for item in entry.target.parsers if item.engine == engine), None)


def warnings(
    entry: Entry, engine: Engine, version: Version, request: Request, seen: Status
) -> Iterator[str]:
    if version > Version(engine.releases[-1].version):
        yield (
            f"{request.engine} {version} is newer than any release known here"
            f" ({engine.releases[-1].version}): its flags are assumed unchanged"
        )
    for caution in entry.model.cautions:
        applies = caution.engine in (None, request.engine)
        if applies and (not caution.version or version in SpecifierSet(caution.version)):
            yield caution.message
    if seen == "untested":
        yield f"{entry.name} on {request.engine} is untested: no figures are published or measured"
    if entry.target.gated:
        yield f"{entry.id} is gated: accept its licence on the hub and set HF_TOKEN"
