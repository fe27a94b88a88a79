"""What does not fit, and each change that alone would make it fit. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isinf

import msgspec

from dflash_deploy.errors import DoesNotFit
from dflash_deploy.hardware import Hardware
from dflash_deploy.memory import Fit
from dflash_deploy.room import (
    CHUNK,
    CONTEXTS,
    LOADS,
    Need,
    Room,
    estimate,
    nameable,
    powers,
    situation,
    smallest_gib,
    usable_gib,
)
from dflash_deploy.rules import findings
from dflash_deploy.schema import EngineName
from dflash_deploy.sglang_memory import prefill_chunk

MOST_CARDS = 64
CHUNKS = (2048, 1024)
Change = tuple[str, Need, Room]
"""As an option, and what it makes of the question."""


def check_room(need: Need, room: Room) -> None:
    """Raises DoesNotFit for what is too large by more than the estimate may be wrong."""
    found = room.fit
    if found is None or found.cache + need.doubt * found.budget >= found.request:
        return
    ways = list(remedies(need, room))
    raise DoesNotFit(
        f"{need.entry.name} does not fit {need.hardware}: weights {found.target:.1f}, draft"
        f" {found.draft:.1f} and a pass {found.passes:.1f} GiB of each card's {found.budget:.1f}"
        f" leave {max(found.cache, 0):.1f} for the cache, and one request of {room.context} tokens"
        f" needs {'more' if isinf(found.request) else f'{found.request:.1f}'}",
        hint=ways[0] if ways else _what_fits(need.hardware),
        detail="\n".join(f"or: {way}" for way in ways[1:]) or None,
    )


def _what_fits(hardware: Hardware) -> str:
    if hardware.origin != "given" or not nameable(hardware):
        return "dflash list --fits"
    return f"dflash list --gpu {hardware.cards[0].name}:{len(hardware.cards)}"


def remedies(need: Need, room: Room) -> Iterator[str]:
    """The mildest change of each kind that makes it fit."""
    for kind in (
        _own_share,
        _chunks,
        _contexts,
        _cache_types,
        _loads,
        _blocks,
        _weights,
        _alone,
        _cards,
    ):
        for said, changed, there in kind(need, room):
            if _holds(changed, there):
                yield said
                break


def _holds(need: Need, room: Room) -> bool:
    """Whether it fits, and no rule refuses it."""
    found = estimate(need, room)
    refused = any(item.severity == "refuse" for item in findings(situation(need, room)))
    return found is not None and found.fits and not refused


def _own_share(need: Need, room: Room) -> Iterator[Change]:
    if need.said_fraction is not None:
        words = {name: said for name, said in need.words.items() if name != "memory_fraction"}
        said = "leave the share of memory after `--` to the engine"
        yield said, replace(need, words=words), replace(room, memory_fraction=None)


def _chunks(need: Need, room: Room) -> Iterator[Change]:
    """For a shorter prefill SGLang keeps less for activations, and takes more of the card."""
    card = smallest_gib(need.hardware)
    if need.request.engine != "sglang" or card is None or need.said_fraction is not None:
        return
    for chunk in CHUNKS:
        if chunk < (need.number(CHUNK) or prefill_chunk(card)):
            words = {**need.words, CHUNK: (str(chunk),)}
            said = f"-- {CHUNK} {chunk}"
            yield said, replace(need, words=words), replace(room, memory_fraction=None)


def _contexts(need: Need, room: Room) -> Iterator[Change]:
    for context in CONTEXTS:
        if context < room.context:
            yield f"--context {context}", need, replace(room, context=context)


def _cache_types(need: Need, room: Room) -> Iterator[Change]:
    request = replace(need.request, kv_dtype="fp8")
    yield "--kv-dtype fp8", replace(need, request=request), room


def _loads(need: Need, room: Room) -> Iterator[Change]:
    for load in LOADS:
        if load < room.concurrency:
            yield f"--concurrency {load}", need, replace(room, concurrency=load)


def _blocks(need: Need, room: Room) -> Iterator[Change]:
    for block in (8, 4):
        if block < need.block_size:
            yield f"--block-size {block}", replace(need, block_size=block), room


def _weights(need: Need, room: Room) -> Iterator[Change]:
    for weights in need.entry.target.weights:
        if weights.format == need.weights.format:
            yield f"--weights {weights.name}", replace(need, weights=weights), room


def _alone(need: Need, room: Room) -> Iterator[Change]:
    """One of several kinds of cards: together they count as the smallest of them."""
    cards = need.hardware.cards
    for card in cards if len({card.name for card in cards}) > 1 else ():
        if card.index is not None:
            only = msgspec.structs.replace(need.hardware, cards=(card,))
            said = f"export CUDA_VISIBLE_DEVICES={card.index}, for the {card.name} alone"
            yield said, replace(need, hardware=only), replace(room, tensor_parallel=1)


def _cards(need: Need, room: Room) -> Iterator[Change]:
    if not nameable(need.hardware):
        return
    for cards in powers(MOST_CARDS):
        if cards > room.tensor_parallel:
            said = f"--gpu {need.hardware.cards[0].name}:{cards}"
            said += f" --tensor-parallel {cards}" if need.request.tensor_parallel else ""
            yield said, need, replace(room, tensor_parallel=cards)


def check_free(hardware: Hardware, ranks: int, fit: Fit | None, engine: EngineName) -> None:
    """Raises DoesNotFit where other processes hold what the engine asks for when it starts.

    vLLM ends unless its whole share is free (0.33.0 v1/worker/utils.py); SGLang makes do with less.
    """
    if fit is None or hardware.origin != "found":
        return
    wanted = fit.budget if engine == "vllm" else fit.target + fit.draft + fit.passes
    for card in hardware.cards[:ranks]:
        if card.free_gib is None or card.free_gib >= wanted:
            continue
        left = int((card.free_gib - 0.5) / usable_gib(card) * 100) / 100
        enough = left * usable_gib(card) > fit.target + fit.draft + fit.passes
        smaller = f", or -- --gpu-memory-utilization {left}"
        raise DoesNotFit(
            f"{card.name} has {card.free_gib:.1f} GiB free, and {engine} takes {wanted:.1f}: other"
            " processes hold the rest",
            hint="end them (nvidia-smi shows which)" + (
                smaller if enough and engine == "vllm" else ""),
        )  # fmt: skip
