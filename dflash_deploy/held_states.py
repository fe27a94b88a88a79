"""Requests that are admitted and wait for the recurrent states of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dflash_deploy.room import Need, Room, estimate, refusal

BLOCKS = (8, 4)
"""The shorter blocks that are named."""


def held_states(need: Need, room: Room) -> Iterator[str]:
    """On vLLM: SGLang lowers its load by itself, and our count of its states was never measured.

    A load that nobody asked for is chosen so that all of it runs.
    """
    if need.request.engine != "vllm" or need.request.concurrency is None:
        return
    if room.fit is None or not room.fit.states:
        return
    most = _at_once(need, room)
    if most < room.concurrency:
        yield (
            f"memory has room for about {most} of {room.concurrency} requests at a time, however"
            f" short: each holds {room.fit.states:.1f} GiB of a card in recurrent states at blocks"
            f" of {need.block_size} ({', or '.join(_ways(need, room, most))})"
        )


def _ways(need: Need, room: Room, most: int) -> Iterator[str]:
    for block in BLOCKS:
        if (more := _with(need, room, block)) > most:
            yield f"--block-size {block} has room for {min(more, room.concurrency)}"
            break
    yield f"--concurrency {most}"


def _with(need: Need, room: Room, block: int) -> int:
    """As many as run with a shorter block; none where it is no shorter, or a rule refuses it."""
    request = replace(need.request, block_size=block)
    other = replace(need, block_size=block, request=request)
    allowed = block < need.block_size and refusal(other, room) is None
    return _at_once(other, room) if allowed else 0


def _at_once(need: Need, room: Room) -> int:
    """Requests of one token: no others hold less."""
    found = estimate(need, replace(room, context=1))
    return max(1, int(found.requests)) if found else room.concurrency
