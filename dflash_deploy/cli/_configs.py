"""Somebody's config.json and the size of the weights beside it, from a folder or from the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.errors import UsageError, unread
from dflash_deploy.model_config import HUB_ID, Stored, parse
from dflash_deploy.named_file import start_of

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
LOCAL = "local"
"""Owner of the drafts that no hub has: engines read them from their folders."""
LONGEST_HEADER = 100 << 20
"""Bytes; the safetensors format allows no longer one."""
LARGEST = 64 << 20
"""Bytes of a config or an index; the longest published have a quarter of it."""


@dataclass(frozen=True)
class Source:
    """A config.json, and where it was."""

    id: str
    config: dict[str, Any]
    place: str
    revision: str | None = None
    stored: Stored | None = None
    folder: str | None = None
    """Where engines read it, of one that no hub has."""


def draft_source(name: str, draft_id: str | None) -> Source:
    """A draft's config, from a folder if there is one of that name, else from the hub."""
    if not name.strip():
        raise UsageError("no draft is named", hint="dflash registry add OWNER/NAME, its hub id")
    folder = Path(name)
    try:
        there = folder.is_dir()
    except OSError as error:  # closed, or a name too long
        raise UsageError(f"{name}: {unread(error)}", hint="a hub id, or its folder") from error
    if there:
        return from_folder(folder, draft_id)
    if draft_id is not None:
        raise UsageError(
            f"--id names a draft in a folder, and `{name}` is none",
            hint=f"dflash registry add {name}",
        )
    return from_hub(name)


def target_source(target_id: str, folder: Path | None) -> Source:
    return from_folder(folder, target_id) if folder else from_hub(target_id)


def from_hub(repository: str) -> Source:
    from dflash_deploy import hub

    if not HUB_ID.fullmatch(repository):
        raise UsageError(
            f"`{repository}` is neither a folder nor a hub id",
            hint="dflash registry add OWNER/NAME, as on the hub",
        )
    folder, commit = hub.small_files(repository, (CONFIG, INDEX), _output.phase)
    config = parse((folder / CONFIG).read_bytes(), f"{CONFIG} of {repository}")
    place = f"{repository} at {commit}"
    return Source(repository, config, place, commit, stored_size(folder))


def in_cache(folder: Path) -> str | None:
    """The hub id of a folder of the hub client's cache."""
    parts = Path(os.path.realpath(folder)).parts
    repository = parts[-3] if "snapshots" in parts[-2:-1] else ""
    owner, _, name = repository.removeprefix("models--").partition("--")
    return f"{owner}/{name}" if name else None


def from_folder(folder: Path, given: str | None) -> Source:
    """In the hub client's cache a folder has its repository's name, and that of the commit."""
    path, cached = Path(os.path.realpath(folder)), in_cache(folder)
    commit = path.name if cached else None
    named = given or cached
    if named and not HUB_ID.fullmatch(named):
        raise UsageError(f"`{named}` is no hub id", hint="--id OWNER/NAME")
    try:
        if not (path / CONFIG).is_file():
            raise FileNotFoundError(2, "no such file", str(path / CONFIG))
        data = start_of(path / CONFIG, LARGEST)
    except OSError as error:
        raise UsageError(
            f"{folder} has no readable {CONFIG}: {error.strerror}", hint="a hub id, or its folder"
        ) from error
    config = parse(data, f"{folder / CONFIG}")
    known_as, unpublished = named or f"{LOCAL}/{slug(path.name, 'draft')}", named is None
    unpublished |= known_as.startswith(f"{LOCAL}/")
    return Source(
        known_as,
        config,
        str(folder),
        commit if named == cached else None,
        stored_size(path),
        str(path) if unpublished else None,
    )


def slug(name: str, otherwise: str) -> str:
    """A folder's name as half of a hub id."""
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).lstrip("-._") or otherwise


def stored_size(folder: Path) -> Stored | None:
    """From the headers of the tensors, if they are all here; else what an index says."""
    try:
        index = msgspec.json.decode(start_of(folder / INDEX, LARGEST))
        wanted = sorted({*index["weight_map"].values()})
        total = index["metadata"]["total_size"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        wanted, total = [file.name for file in sorted(folder.glob("*.safetensors"))], None
    try:
        sizes = [tensor for name in wanted for tensor in tensor_sizes(folder / name)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, MemoryError):
        sizes = []
    if sizes:
        return Stored(sum(size for size, _ in sizes), sum(number for _, number in sizes))
    return Stored(int(total)) if isinstance(total, (int, float)) and total > 0 else None


def tensor_sizes(file: Path) -> Iterator[tuple[int, int]]:
    """Bytes and parameters of each tensor; tables of token numbers are no parameters."""
    length = int.from_bytes(start_of(file, 8), "little")
    header = msgspec.json.decode(start_of(file, 8 + min(length, LONGEST_HEADER))[8:])
    for name, tensor in header.items():
        if name != "__metadata__":
            start, end = tensor["data_offsets"]
            learned = tensor["dtype"].startswith(("F", "BF"))
            yield end - start, prod(tensor["shape"]) if learned else 0
