"""Whether a pull fits on the disk, said before its first byte."""

from __future__ import annotations

import shutil
from pathlib import Path

from dflash_deploy.errors import DownloadError

RESERVE = 1 << 30
"""Bytes left free: a disk filled to the brim breaks others."""


def free(folder: Path) -> int:
    """Bytes that may be written there; the folder itself need not exist yet."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check(needed: int, cache: Path, *, command: str, reserve: int = RESERVE) -> None:
    """Raises DownloadError with the figures, unless `needed` bytes fit and leave the reserve."""
    there = free(cache)
    if needed == 0 or needed + reserve <= there:
        return
    short = needed + reserve - there
    raise DownloadError(
        f"{size(needed)} to fetch and {size(reserve)} to spare do not fit: {cache} has"
        f" {size(there)} free, {size(short)} too little",
        hint=f"HF_HOME=/larger/disk {command}, or `hf cache ls` and `hf cache rm` what is not used",
    )


def size(count: int) -> str:
    """As a person reads it: 13.1 GiB, 512 MiB, 7 KiB."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.{1 if unit == 'GiB' else 0}f} {unit}"
    return f"{count} B"
