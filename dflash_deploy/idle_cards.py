"""Cards that are there and that a plan leaves idle, where they would serve many more. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dflash_deploy.errors import DFlashError
from dflash_deploy.room import Need, Room, choose_room, powers, situation
from dflash_deploy.rules import findings

MANY = 2
"""Times as many requests at once: what less of a gain costs in another card is not worth a word."""


def idle_cards(need: Need, room: Room) -> Iterator[str]:
    """Few cards answer one request fastest for their price, so that they are chosen; who expects
    more is told what the others would hold.
    """
    asked, there = need.request, len(need.hardware.cards)
    if asked.tensor_parallel or asked.concurrency or asked.nodes > 1 or room.fit is None:
        return
    for cards in powers(there):
        if cards > room.tensor_parallel and (more := _with(need, cards)):
            if more.concurrency >= MANY * room.concurrency:
                yield (
                    f"the plan uses {room.tensor_parallel} of {there} cards, with room for"
                    f" {room.concurrency} requests at once: --tensor-parallel {cards} has room for"
                    f" {more.concurrency}"
                )
            return


def _with(need: Need, cards: int) -> Room | None:
    """The room on so many cards; None where a rule refuses them, or nothing fits."""
    wider = replace(need, request=replace(need.request, tensor_parallel=cards))
    try:
        room = choose_room(wider)
    except DFlashError:
        return None
    refused = any(item.severity == "refuse" for item in findings(situation(wider, room)))
    return None if refused or room.fit is None or not room.fit.fits else room
