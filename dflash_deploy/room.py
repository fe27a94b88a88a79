"""Cards, context and requests: what memory leaves room for.

Pure. What was asked for stays as it is, or is refused; what was not is chosen so that a request of
full context fits beside the weights, and as many short ones as are admitted at once. Where the card
or a size is not known, nothing is estimated: documented minimums and defaults hold.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from packaging.version import Version

from dflash_deploy import memory, sglang_memory
from dflash_deploy.checks import draft_heads_do_not_divide
from dflash_deploy.choose import (
    choose_batched_tokens,
    choose_schedule,
    kv_dtype,
)
from dflash_deploy.documented import NO_MINIMUM, documented_cards
from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import DoesNotFit, Unsupported, UsageError
from dflash_deploy.hardware import Card, Hardware, parse
from dflash_deploy.memory import Demand, Fit
from dflash_deploy.registry import Entry
from dflash_deploy.request import Choice, Rejected, Request
from dflash_deploy.rules import findings
from dflash_deploy.schedule import as_json
from dflash_deploy.schema import Draft, Gpu, KvDtype, Recipe, Thinking, Weights
from dflash_deploy.situation import Situation, counted, flag_for
from dflash_deploy.stretched import longest_context
from dflash_deploy.vllm_runner import on_first_runner

DEFAULT_CONCURRENCY = 64
EMBEDDED_CONCURRENCY = 4
DEFAULT_CONTEXT = 32768
"""Long enough for most chats, short enough to start on the smallest documented card."""
CONTEXTS = (DEFAULT_CONTEXT, 16384, 8192, 4096, 2048)
"""Tried from the longest on, where none was asked for."""
CHUNK = "--chunked-prefill-size"
"""Tokens that SGLang prefills at a time, as somebody says it."""
LEAST_CONTEXT = 192
"""What the acceptance check asks for: a short prompt, a chat template around it, and 64 tokens."""
MOST_OTHERS = 16
"""Cards of another kind that are named to somebody who has too few."""
LOADS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
SHORT = 2048
"""Tokens of a request of which all that are admitted shall run at once."""
UNSEEN = 0.015
"""Of a card, where nobody knows better: what the driver keeps and CUDA does not get."""
PREFIXES_OF_HYBRIDS = Version("0.28.0")
"""vLLM keeps prefixes of hybrid targets by default from here on."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """A pair to be served, and what is decided of it before its memory is looked at."""

    request: Request
    hardware: Hardware
    entry: Entry
    engine: Engine
    version: Version
    recipe: Recipe
    draft: Draft
    weights: Weights
    block_size: int
    thinking: Thinking | None
    words: Mapping[str, tuple[str, ...]]
    """What is said in the engine's words, by the recipe or the user."""
    choices: tuple[Choice, ...]
    """Why all this."""
    rejected: tuple[Rejected, ...]
    catalogue: tuple[Gpu, ...] = ()
    """Cards that may be named to somebody who has too few."""

    @property
    def kv_dtype(self) -> KvDtype:
        return kv_dtype(self.recipe, self.request)

    @property
    def said_fraction(self) -> float | None:
        """The share of the card that was said in the engine's words."""
        said = next(iter(self.words.get("memory_fraction", ())), "")
        try:
            return float(said)
        except ValueError:
            return None

    @property
    def doubt(self) -> float:
        """Of the budget, what an estimate may be wrong by before it refuses: docs/memory.md."""
        return 0.03 if self.request.engine == "vllm" else 0.1

    @property
    def longest(self) -> int | None:
        """Tokens that the target reads, stretched as was said after `--`; None: not known."""
        return longest_context(self.entry.target.context, self.words)

    @cached_property
    def keeps_prefixes(self) -> bool:
        """Whether the engine may reuse prefixes: neither somebody nor a rule forbids it."""
        found = findings(situation(self, Room(1, DEFAULT_CONTEXT, 1)))
        added = {item.setting for finding in found for item in finding.set}
        return "no_prefix_caching" not in self.words.keys() | added

    def number(self, setting: str) -> int | None:
        said = next(iter(self.words.get(setting, ())), "")
        return counted(said) if said.isdecimal() else None


@dataclass(frozen=True)
class Room:
    """What is asked of how many cards, and what that takes of each."""

    tensor_parallel: int
    context: int
    concurrency: int
    memory_fraction: float | None = None
    """The engine's share of the card; None: its own default."""
    fit: Fit | None = None


def choose_room(need: Need) -> Room:
    """Raises Unsupported where there are too few cards, or they are too small, or a context is
    longer than the target reads; UsageError for one that is too short for anything.
    """
    check_context(need)
    modelled = estimate(need, next(_rooms(need))) is not None
    room = (next(_fitting(need), None) or _tight(need)) if modelled else _documented(need)
    check_cards(need, room)
    return room


def check_context(need: Need) -> None:
    longest, wanted = need.longest, need.request.context
    if wanted and wanted < LEAST_CONTEXT:
        raise UsageError(
            f"a context of {wanted} has no room for a prompt, its chat template and an answer:"
            f" {LEAST_CONTEXT} tokens at least",
            hint=f"--context {LEAST_CONTEXT}",
        )
    if not longest or not wanted or wanted <= longest:
        return
    flag = None if "overrides" in need.words else flag_for(need.engine, "overrides", need.version)
    raise Unsupported(
        f"{need.entry.name} reads at most {longest} tokens, not {wanted}",
        hint=f"--context {longest}",
        detail=f"YaRN stretches it: {flag} after `--`, as its card has it" if flag else None,
    )


def estimate(need: Need, room: Room) -> Fit | None:
    """What a room takes of each card; None where that is not known, or the engine not modelled."""
    card, engine = smallest_gib(need.hardware), need.request.engine
    if card is None or engine == "transformers":
        return None
    if engine == "sglang":
        return _of_sglang(need, room, card)
    hybrid = any(layers.kind == "linear" for layers in need.entry.target.layers)
    keeps = need.version >= PREFIXES_OF_HYBRIDS and need.keeps_prefixes
    budget = choose_batched_tokens(need.block_size, room.concurrency)
    demand = Demand(
        context=room.context, concurrency=room.concurrency, block_size=need.block_size,
        batched_tokens=need.number("batched_tokens") or budget, ranks=room.tensor_parallel,
        kv_dtype=need.kv_dtype, memory_fraction=room.memory_fraction or memory.UTILIZATION,
        prefix_caching=hybrid and keeps, first_runner=on_first_runner(situation(need, room)),
    )  # fmt: skip
    return memory.fit(need.entry.target, need.weights, need.draft, card, demand)


def _of_sglang(need: Need, room: Room, card: float) -> Fit | None:
    chunk = need.number(CHUNK) or sglang_memory.prefill_chunk(card)
    demand = Demand(
        context=room.context, concurrency=room.concurrency, block_size=need.block_size,
        batched_tokens=chunk, ranks=room.tensor_parallel, kv_dtype=need.kv_dtype,
        prefix_caching=need.keeps_prefixes,
    )  # fmt: skip
    own = sglang_memory.static_fraction(need.entry.target, card, demand)
    demand = replace(demand, memory_fraction=room.memory_fraction or own)
    return sglang_memory.fit(need.entry.target, need.weights, need.draft, card, demand)


def situation(need: Need, room: Room) -> Situation:
    """What the rules look at."""
    said = decided(need.recipe, need.block_size, room.concurrency)
    if schedule := choose_schedule(need.recipe, need.request):
        said["schedule"] = (as_json(schedule),)
    return Situation(
        engine=need.engine, version=need.version, target=need.entry.target, draft=need.draft,
        weights=None if need.request.target_path else need.weights.name,
        architecture=need.hardware.architecture, block_size=need.block_size,
        concurrency=room.concurrency, context=room.context, tensor_parallel=room.tensor_parallel,
        kv_dtype=need.kv_dtype, thinking=need.thinking, settings={**said, **need.words},
    )  # fmt: skip


def decided(recipe: Recipe, block_size: int, concurrency: int) -> dict[str, tuple[str, ...]]:
    """What the command will say in any case, and what a recipe decides: no rule overrides it."""
    said: dict[str, object] = {
        "block_size": block_size,
        "concurrency": concurrency,
        "batched_tokens": choose_batched_tokens(block_size, concurrency),
        "attention_backend": recipe.attention_backend,
        "draft_attention_backend": recipe.draft_attention_backend,
    }
    return {name: (str(value),) for name, value in said.items() if value}


def smallest_gib(hardware: Hardware) -> float | None:
    """Of the smallest card, what CUDA gets of it."""
    return min(map(usable_gib, hardware.cards), default=None) or None


def usable_gib(card: Card) -> float:
    kept = card.memory_gib * UNSEEN if card.reserved_gib is None else card.reserved_gib
    return card.memory_gib - kept


def _fitting(need: Need) -> Iterator[Room]:
    """Every room that holds, the best first: a long context, few cards, many requests."""
    for room in _rooms(need):
        full = estimate(need, room)
        if full is None:
            return
        short = estimate(need, replace(room, context=min(room.context, SHORT)))
        # SGLang lowers by itself what it admits (0.5.23 mem_cache/kv_cache_configurator.py)
        settled = need.request.concurrency is not None or need.request.engine == "sglang"
        if full.fits and short and (settled or short.requests >= room.concurrency):
            yield replace(room, fit=full)


def _rooms(need: Need) -> Iterator[Room]:
    asked = need.request
    cards = [asked.tensor_parallel] if asked.tensor_parallel else _cards(need)
    contexts = [asked.context] if asked.context else _up_to(CONTEXTS, default_context(need.entry))
    loads = [asked.concurrency] if asked.concurrency else _up_to(LOADS, default_load(need))
    for context, ranks, share, load in product(contexts, cards, _shares(need), loads):
        yield Room(ranks, context, _capped(load, need.recipe), share)


def _shares(need: Need) -> list[float | None]:
    """What was published for this pair, then what the engine takes by itself: cards differ."""
    if need.said_fraction is not None:
        return [need.said_fraction]
    published = need.recipe.memory_fraction
    return [None] if published is None else [published, None]


def _cards(need: Need) -> list[int]:
    """As many as are there and divide the draft, from the documented number on if there are so
    many.
    """
    there, nodes = powers(len(need.hardware.cards)), need.request.nodes
    if nodes > 1:
        # nobody spreads a model over machines to leave their cards idle
        return [nodes * there[-1]]
    documented = (need.entry.target.minimum or NO_MINIMUM).tensor_parallel
    enough = [cards for cards in there if cards >= min(documented, there[-1])]
    rooms = {cards: Room(cards, LEAST_CONTEXT, 1) for cards in enough}
    return [
        cards for cards in enough if not draft_heads_do_not_divide(situation(need, rooms[cards]))
    ] or enough


def powers(most: int) -> list[int]:
    return [1 << power for power in range(max(most, 1).bit_length())]


def _up_to(steps: tuple[int, ...], most: int) -> list[int]:
    return [most, *(step for step in steps if step < most)]


def default_context(entry: Entry) -> int:
    return min(entry.target.context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)


def default_load(need: Need) -> int:
    load = EMBEDDED_CONCURRENCY if need.request.engine == "transformers" else DEFAULT_CONCURRENCY
    return _capped(load, need.recipe)


def _capped(load: int, recipe: Recipe) -> int:
    return min(load, recipe.max_concurrency or load)


def _documented(need: Need) -> Room:
    """By what somebody published of the target, in cards and in memory."""
    asked = need.request
    cards, _, _ = documented_cards(need.entry.target, need.weights, need.hardware)
    load = _capped(asked.concurrency, need.recipe) if asked.concurrency else default_load(need)
    context = asked.context or default_context(need.entry)
    # as many of each machine
    cards = -(-cards // asked.nodes) * asked.nodes
    return Room(asked.tensor_parallel or cards, context, load, _shares(need)[0])


def _tight(need: Need) -> Room:
    """The last that was tried: all cards, and the least of what was not asked for."""
    *_, room = _rooms(need)
    return replace(room, fit=estimate(need, room))


def nameable(hardware: Hardware) -> bool:
    """Whether `--gpu` can say more of the same: whole cards, all alike, of the catalogue."""
    names = {card.name for card in hardware.cards}
    return len(names) == 1 and all(
        card.architecture and not card.mig and not card.unified for card in hardware.cards
    )


def check_cards(need: Need, room: Room) -> None:
    hardware, name, nodes = need.hardware, need.entry.name, need.request.nodes
    wanted = room.tensor_parallel
    if wanted % nodes:
        raise UsageError(
            f"{wanted} cards are not the same number on each of {nodes} nodes",
            hint=f"--tensor-parallel {_evenly(wanted, hardware, nodes)}",
        )
    if hardware.cards and wanted > len(hardware.cards) * nodes:
        _, why, _ = documented_cards(need.entry.target, need.weights, hardware)
        asked = need.request.tensor_parallel
        refused = refusal(need, room)
        known = nameable(hardware) and not refused
        cards = f"{hardware.cards[0].name}:{wanted}" if known else other_cards(need)
        raise DoesNotFit(
            f"{name} needs {wanted} cards, and there is only {hardware}"
            f"{f' on each of {nodes} nodes' if nodes > 1 else ''}:"
            f" {'asked for' if asked else why}",
            hint=f"--tensor-parallel {nodes * powers(len(hardware.cards))[-1]}" if asked
            else _on_cards(need, cards) if cards
            else f"dflash show {name}",
            detail=f"and {wanted} are refused: {refused}" if refused and not asked else None,
        )  # fmt: skip


def _on_cards(need: Need, cards: str) -> str:
    """The command that was said, as far as cards depend on it."""
    asked = need.request
    code = ["--trust-remote-code"] if asked.trust_remote_code else []
    words = ["--", *asked.engine_args] if asked.engine_args else []
    said = ["plan", asked.model, "--engine", asked.engine, *code, "--gpu", cards, *words]
    return shlex.join(["dflash", *said])


def other_cards(need: Need) -> str | None:
    """The smallest of the same architecture, else of any, of which a number is not refused."""
    found = []
    for gpu in need.catalogue:
        for count in powers(MOST_OTHERS):
            there = parse(f"{gpu.id}:{count}", need.catalogue)
            cards, _, _ = documented_cards(need.entry.target, need.weights, there)
            other = replace(need, hardware=there)
            if cards == count and refusal(other, _documented(other)) is None:
                foreign = gpu.architecture != need.hardware.architecture
                found.append((foreign, count * gpu.memory_gib, f"{gpu.id}:{count}"))
    return min(found)[-1] if found else None


def refusal(need: Need, room: Room) -> str | None:
    """What a rule has against it."""
    found = findings(situation(need, room))
    return next((item.message for item in found if item.severity == "refuse"), None)


def _evenly(wanted: int, hardware: Hardware, nodes: int) -> int:
    """As many on each node, and no more than are there."""
    on_each = -(-wanted // nodes)
    return nodes * (min(on_each, powers(len(hardware.cards))[-1]) if hardware.cards else on_each)
