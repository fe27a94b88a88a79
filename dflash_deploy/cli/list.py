"""`dflash list`: what can be served, and what it gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import EngineOpt, JsonOpt, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.registry import Entry


def list_models(
    query: Annotated[str, typer.Argument(help="Part of a name.")] = "",
    *,
    engine: EngineOpt = None,
    registry: RegistryOpt = None,
    json: JsonOpt = False,
) -> None:
    """List the supported targets with their drafts and best published speed-up."""
    from dflash_deploy.registry import load
    from dflash_deploy.summary import matches, order, summarise

    known = load(registry)
    wanted = engine.value if engine else None
    entries = known.entries.values()
    found = sorted((each for each in entries if matches(each, query, wanted)), key=order)
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
