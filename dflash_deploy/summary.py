"""An entry in a few words: what `list` shows and `show` begins with. Pure."""

from __future__ import annotations

from typing import Any

from dflash_deploy.registry import Entry
from dflash_deploy.schema import EngineName, Evidence, Measurement, Status, When
from dflash_deploy.status import status


def matches(entry: Entry, query: str, engine: str | None) -> bool:
    """Whether a part of any of its names is `query`, and `engine` serves it."""
    names = (entry.id, *entry.model.aliases, *(draft.id for draft in entry.model.drafts))
    if not any(query.lower() in name.lower() for name in names):
        return False
    return engine is None or engine in engine_statuses(entry)


def engine_statuses(entry: Entry) -> dict[EngineName, Status]:
    """Each engine that some recipe is for, in the registry's order of preference."""
    found: dict[EngineName, Status] = {}
    for recipe in entry.model.recipes:
        if recipe.when.engine:
            found.setdefault(recipe.when.engine, status(entry, recipe))
    return found


def best(entry: Entry) -> tuple[Measurement, Evidence] | None:
    """The row with the largest speed-up over plain decoding."""
    rows = [
        (row, evidence)
        for evidence in entry.model.evidence
        for row in evidence.results
        # what no release of an engine did is nothing a user will see
        if row.speedup is not None and evidence.build is None
    ]
    return max(rows, key=lambda pair: pair[0].speedup or 0) if rows else None


def best_speedup(entry: Entry) -> str | None:
    """As `5.8x math500`; `show` says where and how."""
    found = best(entry)
    return f"{found[0].speedup:g}x {found[0].task}" if found else None


def summarise(entry: Entry) -> dict[str, Any]:
    """The JSON of one line of `list`."""
    found = best(entry)
    return {
        "name": entry.name,
        "target": entry.id,
        "aliases": entry.model.aliases,
        "drafts": [
            {"id": draft.id, "kind": draft.kind, "block_size": draft.block_size}
            for draft in entry.model.drafts
        ],
        "engines": engine_statuses(entry),
        "floors": {floor.engine: floor.version for floor in entry.model.floors},
        "best_speedup": found and {"task": found[0].task, "concurrency": found[0].concurrency,
                                   "speedup": found[0].speedup, "gpu": found[1].gpu,
                                   "engine": found[1].engine},
        "layer": entry.layer,
    }  # fmt: skip


def conditions(when: When, floors: dict[EngineName, str]) -> str:
    """A recipe's condition in words: `vllm >=0.26.0, hopper, up to 16 at once`."""
    floor = floors.get(when.engine) if when.engine else None
    release = when.version or (f">={floor}" if floor else "")
    parts = [f"{when.engine or 'any engine'} {release}".strip()]
    parts += when.architecture or []
    if when.memory_at_least_gib:
        parts.append(f"{when.memory_at_least_gib} GiB cards")
    if when.concurrency_at_most:
        parts.append(f"up to {when.concurrency_at_most} at once")
    if when.kv_dtype:
        parts.append(f"{when.kv_dtype} KV")
    if when.thinking:
        parts.append(f"thinking {when.thinking}")
    return ", ".join(parts)


def published_table(evidence: Evidence) -> tuple[list[str], list[tuple[str, ...]]]:
    """A row a task and block size, a column a load; a cell is a speed-up or tokens a second."""
    loads = sorted({row.concurrency or 0 for row in evidence.results if _gain(row)})
    groups: dict[tuple[str, int | None], list[Measurement]] = {}
    for row in evidence.results:
        groups.setdefault((row.task, row.block_size or evidence.block_size), []).append(row)
    header = ["TASK", "BLOCK", "ACCEPTED", *(f"AT {load}" if load else "GAIN" for load in loads)]
    return header, [_table_row(*key, rows, loads) for key, rows in groups.items()]


def _table_row(
    task: str, block: int | None, rows: list[Measurement], loads: list[int]
) -> tuple[str, ...]:
    accepted = next((row.acceptance_length for row in rows if row.acceptance_length), None)
    gains = {row.concurrency or 0: _gain(row) for row in rows if _gain(row)}
    cells = [gains.get(load, "") for load in loads]
    return (task, f"{block or ''}", f"{accepted:g}" if accepted else "", *cells)


def _gain(row: Measurement) -> str:
    if row.speedup is not None:
        return f"{row.speedup:g}x"
    return f"{row.tokens_per_second:g}/s" if row.tokens_per_second else ""
