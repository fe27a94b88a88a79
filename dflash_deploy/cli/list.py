"""`dflash list`: what can be served, and what it gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import EngineOption, GpuOpt, JsonOpt, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.fits import Fitting
    from dflash_deploy.hardware import Hardware
    from dflash_deploy.registry import Entry
    from dflash_deploy.schema import EngineName


def list_models(
    query: Annotated[str, typer.Argument(help="Part of a name.")] = "",
    *,
    engine: Annotated[
        EngineOption | None, typer.Option("--engine", "-e", help="Only what it serves.")
    ] = None,
    fits: Annotated[bool, typer.Option("--fits", help="Only what the cards here hold.")] = False,
    gpu: GpuOpt = None,
    registry: RegistryOpt = None,
    json: JsonOpt = False,
) -> None:
    """List what can be served, its drafts and best speed-up on record."""
    from dflash_deploy.registry import load
    from dflash_deploy.summary import matches, order, summarise

    known = load(registry)
    wanted: EngineName | None = engine.value if engine else None
    entries = known.entries.values()
    found = sorted((each for each in entries if matches(each, query, wanted)), key=order)
    if fits or gpu is not None:
        from dflash_deploy import hardware
        from dflash_deploy.fits import fitting

        cards = hardware.parse(gpu, known.gpus) if gpu is not None else hardware.probe(known.gpus)
        _fitting([*fitting(known, found, cards, wanted)], cards, json=json)
        return
    if json:
        _output.json({"models": [summarise(entry, known.engines) for entry in found]})
        return
    if not found:
        _output.note("no model matches; `dflash list` shows them all")
        return
    idle = {number for number, entry in enumerate(found) if entry.model.unservable}
    _output.table(COLUMNS, [_row(entry) for entry in found], dim=idle)


COLUMNS = (
    _output.Column("MODEL"),
    _output.Column("BLOCK", right=True),
    _output.Column("VLLM"),
    _output.Column("SGLANG"),
    _output.Column("EMBEDDED"),
    _output.Column("BEST SPEED-UP", wrap=True),
)


def _row(entry: Entry) -> tuple[str, ...]:
    from dflash_deploy.schema import EngineName
    from dflash_deploy.summary import best_speedup, engine_statuses

    statuses = engine_statuses(entry)
    served = [draft for draft in entry.model.drafts if not draft.unservable]
    blocks = "/".join(str(size) for size in dict.fromkeys(d.block_size for d in served) if size)
    if entry.model.unservable:
        return (entry.name, blocks or "-", "-", "-", "-", "not servable")
    engines = (statuses.get(engine, "-") for engine in get_args(EngineName))
    return (entry.name, blocks, *engines, best_speedup(entry) or "-")


FITTING = (
    _output.Column("MODEL"),
    _output.Column("ENGINE"),
    _output.Column("CARDS", right=True),
    _output.Column("CONTEXT", right=True),
    _output.Column("AT ONCE", right=True),
    _output.Column("TAKEN", right=True),
)


def _fitting(found: list[Fitting], cards: Hardware, *, json: bool) -> None:
    if json:
        _output.json({"hardware": cards, "models": found})
        return
    if not cards.cards:
        _output.note("no GPU was found: this is what runs on the CPU; --gpu H100 asks for a card")
    elif not found:
        _output.note(f"nothing that matches fits {cards}")
    if not found:
        return
    _output.table(FITTING, [_fits(each) for each in found])
    if any(each.taken_gib is None for each in found if each.engine != "transformers"):
        _output.note("?: a size is not known, and the documented minimum of cards holds")


def _fits(each: Fitting) -> tuple[str, ...]:
    on_cpu = each.engine == "transformers"
    unknown = "-" if on_cpu else "?"
    taken = each.taken_gib is not None and f"{each.taken_gib:.1f} of {each.budget_gib:.1f} GiB"
    return (
        each.model, each.engine, "-" if on_cpu else str(each.tensor_parallel), str(each.context),
        f"{each.requests:.1f}" if each.requests is not None else unknown, taken or unknown,
    )  # fmt: skip
