"""Which draft, release, block size and limits a request gets, and why. Pure: no I/O.

Each question is answered once, by a function of `choose.py`, and leaves a `Choice` that says why;
the engine's rules may refuse, warn, or add a setting. The adapters only write the answers down in
their engine's words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec
from packaging.version import Version

from dflash_deploy.choose import (
    choose_block_size,
    choose_recipe,
    choose_schedule,
    choose_thinking,
    choose_version,
    choose_weights,
    find_parsers,
    intended_draft,
    named_draft,
)
from dflash_deploy.engine_args import check_engine_args
from dflash_deploy.engine_schema import Engine
from dflash_deploy.hardware import Hardware
from dflash_deploy.held_states import held_states
from dflash_deploy.idle_cards import idle_cards
from dflash_deploy.no_room import check_room
from dflash_deploy.reach import within
from dflash_deploy.refuse import (
    check_cards,
    check_foreign,
    check_kv_dtype,
    check_recipe_flags,
    check_remote_code,
    check_servable,
    refuse,
)
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.request import Choice, Fix, Request, Resolution
from dflash_deploy.room import Need, choose_room, situation
from dflash_deploy.room_reasons import cut_short, reasons
from dflash_deploy.rules import Finding, findings
from dflash_deploy.schedule import in_words
from dflash_deploy.schema import (
    Draft,
    Recipe,
    Status,
    Weights,
)
from dflash_deploy.situation import said_kv_dtype, settings_of
from dflash_deploy.status import nearest_synthetic, status

Pinned = TypeVar("Pinned", Draft, Weights)

EVEN = 0.95
"""Of plain decoding's speed: repeats differ by as much."""


def resolve(registry: Registry, request: Request, hardware: Hardware) -> Resolution:
    """Answer every question of a request, in the order in which the answers depend on each other.

    Raises UnknownModel, UsageError (a value without meaning), Unsupported (no recipe, or not on
    this hardware) and EngineError (a release below the entry's floor).
    """
    need = understand(registry, request, hardware)
    entry, engine, version, request = need.entry, need.engine, need.version, need.request
    recipe, draft, weights = need.recipe, need.draft, need.weights
    check_remote_code(entry, draft, weights, request, engine, version, need.words)
    room = choose_room(need)
    at = situation(need, room)
    found = findings(at)
    refuse(found, engine, version)
    check_room(need, room)
    check_cards(at, hardware, request.nodes)
    seen = status(entry, recipe, weights.name, alike(registry, hardware))
    idle = (*idle_cards(need, room),)
    short = (*short_queue(recipe, request, room.concurrency),)
    return Resolution(
        request=request, entry=entry, engine=engine, version=version, hardware=hardware,
        recipe=recipe, status=seen, draft=draft, weights=weights, block_size=need.block_size,
        concurrency=room.concurrency, context=room.context, tensor_parallel=room.tensor_parallel,
        memory_fraction=room.memory_fraction, fit=room.fit, thinking=need.thinking,
        parsers=find_parsers(entry, request.engine),
        said=frozenset(need.words.keys() - {"speculation", "template_defaults"}),  # made one object
        fixes=tuple(fixes(found)), variables=tuple(variables(found)),
        choices=(*reasoned((*need.choices, *reasons(need, room)),
                           {"recipe": short, "tensor_parallel": idle}),),
        notes=tuple(item.message for item in found if item.severity == "note"),
        rejected=need.rejected, doubts=tuple(item for item in found if item.accepts_less),
        warnings=(*cautions(entry, draft, engine, version, request, hardware),
                  *terms(need, seen),
                  *short,
                  *idle,
                  *cut_short(need, room),
                  *held_states(need, room),
                  *beyond_training(entry, draft, room.context),
                  *(item.message for item in found if item.severity == "warn")),
    )  # fmt: skip


def understand(registry: Registry, request: Request, hardware: Hardware) -> Need:
    """The pair, release, recipe and block: all that is decided before memory is looked at."""
    entry = registry.find(request.model)
    check_foreign(entry, registry)
    engine = registry.engines[request.engine]
    check_servable(entry, named_draft(entry, request))
    wanted = intended_draft(entry, request)
    version, release = choose_version(entry, engine, request, wanted)
    check_engine_args(registry.engines, version, request, entry, wanted)
    words = settings_of(request.engine, engine, version, request.engine_args)
    dtype = said_kv_dtype(words)
    check_kv_dtype(request, dtype)
    if dtype != "auto":
        request = replace(request, kv_dtype=dtype)
    thinking, mode = choose_thinking(entry, wanted, words)
    recipe, rejected = choose_recipe(entry, request, version, hardware, thinking, wanted)
    check_recipe_flags(engine, request.engine, version, recipe)
    draft = at_commit(entry.draft(recipe.draft), words.get("draft_revision"))
    weights, source = choose_weights(entry, request)
    block_size, block = choose_block_size(draft, recipe, request)
    chosen = Choice("recipe", recipe.name, recipe.why, recipe.source)
    return Need(
        request=request, hardware=hardware, entry=entry, engine=engine, version=version,
        recipe=recipe, draft=draft, weights=at_commit(weights, words.get("revision")),
        block_size=block_size, thinking=thinking,
        words=settings_of(request.engine, engine, version, recipe.flags) | words,
        choices=(chosen, release, source, block, *([mode] if mode else [])),
        rejected=tuple(rejected), catalogue=tuple(registry.gpus),
    )  # fmt: skip


def reasoned(choices: Iterable[Choice], further: Mapping[str, Sequence[str]]) -> Iterator[Choice]:
    """`further`: what a choice was made knowing of, by its name. Its reason says so too."""
    for choice in choices:
        why = "; ".join((choice.why, *further.get(choice.name, ())))
        yield msgspec.structs.replace(choice, why=why)


def at_commit(pinned: Pinned, said: tuple[str, ...] | None) -> Pinned:
    """A draft or weights at the revision that was said after `--`, else at their own."""
    return msgspec.structs.replace(pinned, revision=said[0]) if said else pinned


def alike(registry: Registry, hardware: Hardware) -> frozenset[str] | None:
    """The cards of the same architecture: what does not start on others says nothing of these."""
    if hardware.architecture is None:
        return None
    return frozenset(g.id for g in registry.gpus if g.architecture == hardware.architecture)


def fixes(found: list[Finding]) -> Iterator[Fix]:
    for item in found:
        for setting in item.set if item.severity == "fix" else ():
            yield Fix(setting.setting, setting.value, item.message, item.source)


def variables(found: list[Finding]) -> Iterator[Fix]:
    for item in found:
        for variable in item.variables if item.severity == "fix" else ():
            yield Fix(variable.name, variable.value, item.message, item.source)


def cautions(
    entry: Entry, draft: Draft, engine: Engine, version: Version, request: Request,
    hardware: Hardware,
) -> Iterator[str]:  # fmt: skip
    """What the entry itself warns of, and a release that nobody here has seen."""
    newest = engine.releases[-1].version
    if version > Version(newest):
        yield (
            f"{request.engine} {version} is newer than any release known here ({newest}):"
            " its flags are assumed unchanged"
        )
    for caution in entry.model.cautions:
        meant = caution.engine in (None, request.engine) and caution.draft in (None, draft.id)
        if meant and within(caution.version, version) and may_be(caution.cards, hardware):
            yield caution.message


def may_be(cards: list[str] | None, hardware: Hardware) -> bool:
    """Whether one of these cards is there, or one that nobody knows."""
    there = {(card.name, card.architecture) for card in hardware.cards}
    return not (cards and there) or any(
        architecture is None or {name, architecture} & {*cards} for name, architecture in there
    )


def short_queue(recipe: Recipe, request: Request, admitted: int) -> Iterator[str]:
    """A load that nobody stated was taken for a low one, while the server admits more."""
    most = recipe.when.concurrency_at_most
    if most and request.concurrency is None and admitted > most:
        yield (
            f"recipe {recipe.name} is for at most {most} requests at once:"
            " --concurrency says how many you expect"
        )


def beyond_training(entry: Entry, draft: Draft, context: int) -> Iterator[str]:
    """A context stretched beyond the target's own is far beyond what the draft has seen."""
    if draft.trained_context and context > (entry.target.context or context):
        yield f"{draft.id} was trained on {draft.trained_context} tokens, of {context} served here"


def terms(need: Need, seen: Status) -> Iterator[str]:
    """What is not known of the pair, and what its licences ask: said before anything is fetched."""
    entry, draft, engine = need.entry, need.draft, need.request.engine
    if seen == "untested":
        yield (
            f"{entry.name} with {need.weights.name} weights on {engine} is untested:"
            f" {_unproven(need)}"
        )
    if seen == "degraded":
        yield (
            f"{entry.name} on {engine} is degraded: it was seen to gain less than published"
            f" (dflash show {entry.name})"
        )
    for name, licensed in ((entry.id, entry.target), (draft.id, draft)):
        if licensed.gated:
            yield f"{name} is gated: accept its licence on the hub and set HF_TOKEN"
        if licensed.terms:
            yield f"{name} ({licensed.licence or 'licence unknown'}): {licensed.terms}"


def _unproven(need: Need) -> str:
    """A load that nobody stated is taken for a low one, as recipes take it."""
    load = need.request.concurrency or 1
    found = nearest_synthetic(
        need.entry, need.draft, need.request.engine, need.block_size, load,
        choose_schedule(need.recipe, need.request),
    )  # fmt: skip
    if found is None:
        return "no figures are published or measured"
    row, seen = found
    blocks = f" with blocks of {row.block_size}" if row.block_size else ""
    blocks = f" with draft tokens {in_words(row.schedule)}" if row.schedule else blocks
    slower = ": slower than plain decoding" if (row.speedup or 1) < EVEN else ""
    return (
        f"what the engine costs was measured with synthetic acceptance ({seen.engine}"
        f" {seen.version}, {seen.gpu}, {seen.date}: {row.speedup:g}x at {row.concurrency}{blocks}"
        f"{slower}), and nothing of the draft"
    )
