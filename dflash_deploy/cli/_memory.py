"""`dflash show --memory`: what contexts and loads take of each card."""

from __future__ import annotations

from dflash_deploy import hardware
from dflash_deploy.cli import _output
from dflash_deploy.errors import UsageError
from dflash_deploy.fits import Cell, MemoryTable, memory_table
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName


def show_memory(
    registry: Registry, model: str, engine: EngineName | None, gpu: str | None, *, json: bool
) -> None:
    cards = hardware.parse(gpu, registry.gpus) if gpu is not None else hardware.probe(registry.gpus)
    if not cards.cards:
        raise UsageError(
            "no GPU was found: which one is meant?", hint=f"dflash show {model} --memory --gpu H100"
        )
    table = memory_table(registry, model, engine, cards)
    if json:
        _output.json(_document(table))
        return
    need, room, fit = table.need, table.room, table.room.fit
    assert fit is not None  # noqa: S101 - memory_table raises without one
    _output.text(
        f"{need.entry.name} with {need.draft.id}, blocks of {need.block_size}\n"
        f"{need.request.engine} {need.version} on {room.tensor_parallel} of {need.hardware}, GiB of"
        " each card"
    )
    _output.text(
        f"weights {fit.target:.1f}, draft {fit.draft:.1f}; the engine takes {fit.budget:.1f} in all"
    )
    columns = [_output.Column("CONTEXT", right=True)]
    columns += [
        _output.Column("1 REQUEST" if load == 1 else f"{load} REQUESTS", right=True)
        for load in table.loads
    ]
    rows = [
        (str(context), *map(_cell, cells))
        for context, cells in zip(table.contexts, table.cells, strict=True)
    ]
    _output.table(columns, rows)
    _output.note("in brackets: more than the engine gets, for so many requests of full context")


def _cell(cell: Cell) -> str:
    if cell.gib is None or cell.gib == float("inf"):
        return "(-)"
    return f"{cell.gib:.1f}" if cell.fits else f"({cell.gib:.1f})"


def _document(table: MemoryTable) -> dict[str, object]:
    need, room = table.need, table.room
    return {
        "model": need.entry.name, "draft": need.draft.id, "engine": need.request.engine,
        "version": str(need.version), "hardware": need.hardware, "block_size": need.block_size,
        "tensor_parallel": room.tensor_parallel, "fit": room.fit, "contexts": table.contexts,
        "loads": table.loads, "cells": table.cells,
    }  # fmt: skip
