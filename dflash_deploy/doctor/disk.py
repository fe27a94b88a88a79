"""Where the hub's weights go: may it be written, what is there, and which pairs still fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dflash_deploy.doctor.finding import Finding, State, plain
from dflash_deploy.hub import cache, disk
from dflash_deploy.registry import Entry

GIB = 1 << 30
LARGER = "export HF_HOME=/larger/disk, or `hf cache ls` and `hf cache rm` what is not used"


class Disk(msgspec.Struct, frozen=True):
    folder: str
    free: int
    """Bytes."""
    writable: bool
    cached: int
    """Repositories that are there."""


class Pair(msgspec.Struct, frozen=True):
    name: str
    size: int
    """Bytes of the weights served by default, and of the first draft's."""


def read() -> Disk:
    folder = cache.root()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    return Disk(
        str(folder), disk.free(folder), there.is_dir() and os.access(there, os.W_OK | os.X_OK),
        sum(1 for _ in folder.glob("models--*/snapshots/*/config.json")),
    )  # fmt: skip


def pairs(entries: Mapping[str, Entry]) -> list[Pair]:
    """Those whose size is known, the smallest first."""
    found = []
    for entry in entries.values():
        sizes = [entry.target.weights[0].gib, entry.model.drafts[0].gib] if _served(entry) else []
        known = [size for size in sizes if size is not None]
        if len(known) == 2:
            found.append(Pair(entry.name, int(sum(known) * GIB)))
    return sorted(found, key=lambda pair: pair.size)


def models(count: int) -> str:
    return f"{count or 'no'} model{'s' if count > 1 else ''}"


def _served(entry: Entry) -> bool:
    return bool(not entry.model.unservable and entry.target.weights and entry.model.drafts)


def findings(there: Disk, known: list[Pair]) -> Iterator[Finding]:
    where = plain(Path(there.folder))
    if not there.writable:
        remedy = f"sudo chown -R $USER {where}, or export HF_HOME=/a/folder/of/yours"
        yield Finding("disk", "problem", f"{where} cannot be written by this user", remedy)
    room = [pair for pair in known if pair.size + disk.RESERVE <= there.free]
    text = f"{disk.size(there.free)} free at {where} ({models(there.cached)} there)"
    if not room:
        state: State = "note" if there.cached else "problem"
        yield Finding("disk", state, f"{text}: no room for another", LARGER)
    elif len(room) < len(known):
        text += f": room for {len(room)} of the {len(known)} pairs of known size"
        largest = f"up to {room[-1].name} with {disk.size(room[-1].size)}"
        few = len(room) < len(known) / 4
        yield Finding(
            "disk", "note" if few else "ok", f"{text}, {largest}", LARGER if few else None
        )
    else:
        yield Finding("disk", "ok", f"{text}: room for any pair of known size")
