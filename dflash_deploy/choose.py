"""One function a question: which release, recipe, draft, block size and limits, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from packaging.version import InvalidVersion, Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import EngineError, Unsupported, UsageError
from dflash_deploy.flag_tables import json_object
from dflash_deploy.hardware import Hardware
from dflash_deploy.reach import as_release, within
from dflash_deploy.registry import Entry
from dflash_deploy.request import Choice, Rejected, Request
from dflash_deploy.rules import FirstRelease, first_release
from dflash_deploy.schema import (
    Draft,
    EngineName,
    KvDtype,
    Parsers,
    Recipe,
    Span,
    Thinking,
    Weights,
    When,
)
from dflash_deploy.situation import said_thinking


def named_draft(entry: Entry, request: Request) -> Draft | None:
    """The draft that MODEL is the hub id of; None: the entry's recipes choose."""
    wanted = request.model.lower()
    return next((draft for draft in entry.model.drafts if draft.id.lower() == wanted), None)


def intended_draft(entry: Entry, request: Request) -> Draft:
    """The draft that MODEL names, or the first one that a recipe serves on this engine."""
    named = named_draft(entry, request)
    if named or not entry.model.drafts:
        return named or entry.draft(None)
    for draft in entry.model.drafts:
        if any(
            recipe.when.engine in (None, request.engine) and entry.draft(recipe.draft) == draft
            for recipe in entry.model.recipes
        ):
            return draft
    return entry.model.drafts[0]


def release_of(engine: Engine, text: str | None) -> Version:
    """The release that was named, or the newest known."""
    newest = engine.releases[-1].version
    try:
        return Version(text or newest)
    except InvalidVersion as error:
        raise UsageError(
            f"`{text}` is not a release of {engine.distribution}",
            hint=f"--engine-version {newest}",
        ) from error


def choose_version(
    entry: Entry, engine: Engine, request: Request, draft: Draft
) -> tuple[Version, Choice]:
    """The release asked for or found, or the newest known; never one below the entry's floor."""
    newest = engine.releases[-1].version
    version = release_of(engine, request.engine_version)
    floor = highest_floor(entry, engine, request.engine, draft)
    if as_release(version) < Version(engine.first_release):
        raise EngineError(
            f"{request.engine} {version} has no DFlash: {engine.first_release} is the first to",
            hint=f"dflash engine install {engine.distribution}=={newest}",
        )
    if floor and as_release(version) < Version(floor.version):
        raise EngineError(
            f"{request.engine} {version} is too old for {entry.name}, which needs"
            f" {floor.version}: before it, {floor.because}",
            hint=f"dflash engine install {engine.distribution}=={newest}",
        )
    why = "asked for, or found on this machine" if request.engine_version else "the newest known"
    if floor:
        why += f"; at least {floor.version}: before it, {floor.because}"
    return version, Choice("engine_version", str(version), why, floor.source if floor else None)


def highest_floor(
    entry: Entry, engine: Engine, name: EngineName, draft: Draft
) -> FirstRelease | None:
    """The first release for this pair, by the engine's rules or by what the entry adds to them."""
    stated = [
        FirstRelease(floor.version, floor.because, floor.source)
        for floor in entry.floors(name, draft)
    ]
    ruled = first_release(engine, entry.target, draft)
    known = [*stated, *([ruled] if ruled else [])]
    return max(known, key=lambda floor: Version(floor.version), default=None)


def default_engine(entry: Entry, model: str) -> EngineName:
    """The engine of the first recipe for the draft that is meant: the registry's preference.

    An overlay that adds another draft stands in front, and decides nothing for this one.
    """
    wanted = model.lower()
    named = [draft for draft in entry.model.drafts if draft.id.lower() == wanted]
    meant = next(iter(named or entry.model.drafts), None)
    for recipe in entry.model.recipes:
        if recipe.when.engine and entry.draft(recipe.draft) == meant:
            return recipe.when.engine
    return "vllm"


def choose_thinking(
    entry: Entry, draft: Draft, words: Mapping[str, tuple[str, ...]]
) -> tuple[Thinking | None, Choice | None]:
    """The mode the draft was trained for: in the other one its acceptance collapses."""
    modes = entry.target.thinking
    if modes is None:
        return None, None
    if modes.template_key in json_object("".join(words.get("template_defaults", ()))):
        said = said_thinking(entry.target, words)
        return said, Choice("thinking", str(said), "said after `--`")
    if draft.thinking is None:
        return modes.default, Choice("thinking", modes.default, "the chat template's default")
    why = f"{draft.id} was trained with thinking {draft.thinking}, and is accepted less without"
    return draft.thinking, Choice("thinking", draft.thinking, why)


def choose_recipe(
    entry: Entry, request: Request, version: Version, hardware: Hardware,
    thinking: Thinking | None, wanted: Draft,
) -> tuple[Recipe, list[Rejected]]:  # fmt: skip
    """The first recipe for a draft whose conditions all hold, and why others do not."""
    rejected: list[Rejected] = []
    for recipe in entry.model.recipes:
        draft = entry.draft(recipe.draft)
        failed = (
            f"with the draft {draft.id}" if draft != wanted
            else next(mismatches(recipe.when, request, version, hardware, thinking), None)
        )  # fmt: skip
        if failed is None:
            return recipe, rejected
        rejected.append(Rejected(recipe.name, failed))
    served = sorted(
        {recipe.when.engine for recipe in entry.model.recipes
         if recipe.when.engine and entry.draft(recipe.draft) == wanted}
    )  # fmt: skip
    if request.engine not in served and served:
        raise Unsupported(
            f"{entry.name} with {wanted.id} has no recipe for {request.engine}",
            hint=f"dflash plan {entry.name} --engine {_preferred(served)}",
        )
    raise Unsupported(
        f"no recipe of {entry.name} fits {request.engine} {version} on {hardware}",
        hint=f"dflash show {entry.name}",
        detail="\n".join(f"{item.name}: {item.why}" for item in rejected),
    )


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
    if not within(when.version, version):
        yield f"for {when.engine or request.engine} {when.version}, not {version}"
    if when.architecture and architecture not in when.architecture:
        yield f"for {', '.join(when.architecture)}, not {architecture or 'an unknown card'}"
    names = {card.name for card in hardware.cards}
    if when.cards and not (names and names <= {*when.cards}):
        yield f"for {', '.join(when.cards)}, not {', '.join(sorted(names)) or 'an unknown card'}"
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
    raise UsageError(
        f"{entry.name} has no weights `{request.weights}`",
        hint=", or ".join(f"--weights {weights.name}" for weights in known),
    )


def choose_block_size(draft: Draft, recipe: Recipe, request: Request) -> tuple[int, Choice]:
    """A draft serves blocks up to the size it was trained with, never longer ones."""
    trained = draft.block_size
    if trained is None:
        raise Unsupported(f"the block size of {draft.id} is not known", hint="dflash registry add")
    if request.block_size is not None:
        if not 2 <= request.block_size <= trained:
            raise UsageError(
                f"block size {request.block_size} is outside 2..{trained}:"
                f" {draft.id} was trained with blocks of {trained}",
                hint=f"--block-size {trained}",
            )
        return request.block_size, Choice("block_size", str(request.block_size), "asked for")
    if recipe.block_size is not None:
        why = f"recipe {recipe.name}: {recipe.why}"
        return recipe.block_size, Choice("block_size", str(recipe.block_size), why, recipe.source)
    why = f"{draft.id} was trained with it"
    return trained, Choice("block_size", str(trained), why)


def choose_schedule(recipe: Recipe, request: Request) -> tuple[Span, ...]:
    """The recipe's, which was made for its block: another block asked for leaves it out."""
    return tuple(recipe.schedule) if request.block_size is None else ()


def choose_batched_tokens(block_size: int, concurrency: int) -> int:
    """vLLM's budget of tokens a step, enough on every release: max(8192 + (K-1) N, (2K+1) N).

    K draft tokens, N requests. 0.20 to 0.27 take (K-1) N slots off the budget and refuse to start
    when nothing is left; 0.28 to 0.30 charge each decoding request 2K+1 tokens; 0.33 K+1.
    """
    k, n = block_size - 1, concurrency
    return max(8192 + (k - 1) * n, (2 * k + 1) * n)


def kv_dtype(recipe: Recipe, request: Request) -> KvDtype:
    return request.kv_dtype if request.kv_dtype != "auto" else recipe.kv_dtype or "auto"


def find_parsers(entry: Entry, engine: EngineName) -> Parsers | None:
    return next((item for item in entry.target.parsers if item.engine == engine), None)
