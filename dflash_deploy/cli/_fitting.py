"""Before anything is asked: whether the prompts and their answers fit the servers' context."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dflash_deploy.cli import _output
from dflash_deploy.cli._bench_servers import Field, Started, There
from dflash_deploy.cli._bench_setup import Asked
from dflash_deploy.errors import Unsupported
from dflash_deploy.measure.asks import Task
from dflash_deploy.measure.connection import context_at
from dflash_deploy.measure.fitting import Count, Room, remedies, room_for, said
from dflash_deploy.measure.token_count import by_file, by_server
from dflash_deploy.plan import Endpoint
from dflash_deploy.registry import Registry

SHOWN = 3
"""Prompts that are named."""


def check_fits(registry: Registry, asked: Asked, found: Field, tasks: Sequence[Task]) -> None:
    """A prompt without room is refused, in each arm. Raises Unsupported, before a server starts."""
    plans = [each.plan for each in found.servers if isinstance(each, Started)]
    sides = [side for each in found.servers if isinstance(each, There) for side in each.sides]
    every = [*(plan.context for plan in plans), *(context_at(side.endpoint) for side in sides)]
    contexts = [context for context in every if context is not None]
    if contexts:
        check_room(registry, asked, tasks, min(contexts), sides[0].endpoint if sides else None)


def check_room(
    registry: Registry, asked: Asked, tasks: Sequence[Task], context: int,
    server: Endpoint | None = None,
) -> None:  # fmt: skip
    """`server`: one that runs already. Raises Unsupported."""
    entry = registry.find(asked.wanted.model)
    rooms = [room_for(task, context, None) for task in tasks]
    if any(room.unknown for room in rooms):
        count: Count | None = (by_server(server) if server else None) or by_file(entry)
        rooms = [room_for(task, context, count) for task in tasks]
    full = [room for room in rooms if room.too_long]
    if full:
        raise _too_long(full, 0 if server else entry.target.context)
    for room in rooms:
        if room.unknown:
            model = shlex.quote(asked.wanted.model)
            _output.note(
                f"{room.unknown} of {room.prompts} prompts of {room.workload} may be too long for"
                f" a context of {context}: nothing here counts their tokens"
                f" (dflash pull {model} and pip install tokenizers bring what does)"
            )


def _too_long(full: Sequence[Room], longest: int | None) -> Unsupported:
    first, *others = sorted(full, key=lambda room: -room.needed)
    lines = [f"{each.tokens} tokens: {each.begins}" for each in first.too_long if each.begins]
    lines = [*lines[:SHOWN], *(f"also: {said(other)}" for other in others)]
    return Unsupported(
        said(first), hint=next(remedies(first, longest)), detail="\n".join(lines) or None
    )
