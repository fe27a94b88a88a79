"""What fits some cards, and how much room an entry has on them: `list --fits`, `show --memory`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from dflash_deploy.choose import default_engine
from dflash_deploy.errors import DFlashError, UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.no_room import check_free, check_room
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.request import Request
from dflash_deploy.resolve import understand
from dflash_deploy.room import CONTEXTS, Need, Room, choose_room, default_context, estimate
from dflash_deploy.schema import EngineName
from dflash_deploy.summary import engine_statuses

LOADS = (1, 4, 16, 64, 256)


class Fitting(msgspec.Struct, frozen=True):
    """An entry that these cards hold, as the plan would have it."""

    model: str
    engine: EngineName
    tensor_parallel: int
    context: int
    concurrency: int
    requests: float | None
    """Of full context at once; None where no estimate can be made."""
    taken_gib: float | None
    """Of each card, before anything is cached."""
    budget_gib: float | None
    """Of each card, what the engine takes at most."""


class Cell(msgspec.Struct, frozen=True):
    """What a load takes of each card, in GiB, and whether the engine gets that much."""

    gib: float | None
    fits: bool


@dataclass(frozen=True)
class MemoryTable:
    need: Need
    room: Room
    contexts: tuple[int, ...]
    loads: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    """A row a context, a column a load."""


def fitting(
    registry: Registry, entries: Sequence[Entry], hardware: Hardware, engine: EngineName | None
) -> Iterator[Fitting]:
    """Each entry once, on the first engine that has a recipe for it and room."""
    for entry in entries:
        found = (_on(registry, entry, name, hardware) for name in _engines(entry, engine, hardware))
        yield from [fits for fits in found if fits][:1]


def _engines(entry: Entry, asked: EngineName | None, hardware: Hardware) -> Iterator[EngineName]:
    for name in engine_statuses(entry):
        # without a card only the embedded engine runs
        if asked in (None, name) and (hardware.cards or name == "transformers"):
            yield name


def _on(registry: Registry, entry: Entry, engine: EngineName, hardware: Hardware) -> Fitting | None:
    if engine == "transformers" and not _in_system_memory(entry):
        return None
    try:
        need = understand(registry, Request(model=entry.id, engine=engine), hardware)
        room = choose_room(need)
        check_room(need, room)
        check_free(hardware, room.tensor_parallel, room.fit, engine)
    except DFlashError:
        return None
    fit, asked = room.fit, (room.tensor_parallel, room.context, room.concurrency)
    if fit is None:
        return Fitting(entry.name, engine, *asked, None, None, None)
    taken = fit.target + fit.draft + fit.passes
    return Fitting(entry.name, engine, *asked, fit.requests, taken, fit.budget)


def _in_system_memory(entry: Entry) -> bool:
    """The embedded engine computes in fp32 on a CPU: twice the bytes of bf16 weights."""
    import psutil

    weights = entry.target.weights[0].in_memory
    return weights is not None and 2 * weights * 2**30 < psutil.virtual_memory().total


def memory_table(
    registry: Registry, model: str, engine: EngineName | None, hardware: Hardware
) -> MemoryTable:
    """What each context and load takes. Raises UsageError where nothing can be estimated."""
    entry = registry.find(model)
    name = engine or default_engine(entry, model)
    need = understand(registry, Request(model=model, engine=name), hardware)
    room = choose_room(need)
    if room.fit is None:
        raise UsageError(
            f"no estimate for {entry.name} on {hardware}: the card, or a size of the pair, is not"
            " known here",
            hint=f"dflash show {entry.name}"
            + (" --memory --engine vllm" if name == "transformers" else ""),
        )
    most = default_context(entry)
    longer = [entry.target.context] if entry.target.context else []
    contexts = sorted({*(c for c in CONTEXTS if c <= most), *longer, 4 * most}
                      & set(range((entry.target.context or most) + 1)))  # fmt: skip
    cells = tuple(
        tuple(_cell(need, replace(room, context=context, concurrency=load)) for load in LOADS)
        for context in contexts
    )
    return MemoryTable(need, room, tuple(contexts), LOADS, cells)


def _cell(need: Need, room: Room) -> Cell:
    fit = estimate(need, room)
    if fit is None:
        return Cell(None, fits=False)
    taken = fit.target + fit.draft + fit.passes + room.concurrency * fit.request
    return Cell(taken, fits=fit.requests >= room.concurrency)
