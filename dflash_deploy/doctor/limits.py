"""Shared memory, open files and locked memory: what several cards and many requests need."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from dflash_deploy.doctor.finding import Finding
from dflash_deploy.hub import disk

SHM = "/dev/shm"  # noqa: S108  # nothing is written there
LEAST_SHM = 1 << 30
"""Bytes. Docker's default of 64 MiB is too little for the workers of several cards."""
FILES = 65535
"""What both engines raise the soft limit to, if the hard one lets them."""


class Limits(msgspec.Struct, frozen=True):
    """Sizes in bytes; None: no limit, or for `shm` that there is none."""

    shm: int | None
    shm_free: int | None
    files: int | None
    """The hard limit."""
    locked: int | None
    """The soft limit."""


def read() -> Limits:
    import resource

    def told(limit: int) -> int | None:
        return None if limit == resource.RLIM_INFINITY else limit

    try:
        stat = os.statvfs(SHM)
        total, free = stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail
    except OSError:
        total, free = None, None
    return Limits(
        total, free, told(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        told(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
    )  # fmt: skip


def findings(limits: Limits, *, cards: int) -> Iterator[Finding]:
    yield _shm(limits, cards)
    locked = "any amount" if limits.locked is None else disk.size(limits.locked)
    aside = f"locked memory: {locked}"
    if cards > 1 and limits.locked is not None:
        aside += " (InfiniBand between machines asks for more)"
    if limits.files is not None and limits.files < FILES and cards:
        text = f"open files: at most {limits.files}, engines ask for {FILES}; {aside}"
        remedy = f"raise nofile in /etc/security/limits.conf, or docker run --ulimit nofile={FILES}"
        yield Finding("limits", "note", text, remedy)
    else:
        files = "any number" if limits.files is None else f"at most {limits.files}"
        yield Finding("limits", "ok", f"open files: {files}; {aside}")


def _shm(limits: Limits, cards: int) -> Finding:
    if limits.shm is None:
        return Finding("limits", "note" if cards > 1 else "ok", f"there is no {SHM}")
    text = f"{SHM}: {disk.size(limits.shm)}"
    if limits.shm_free is not None:
        text += f", {disk.size(limits.shm_free)} free"
    enough = min(limits.shm, limits.shm if limits.shm_free is None else limits.shm_free)
    if cards > 1 and enough < LEAST_SHM:
        text += f": too little for a model on {cards} cards"
        return Finding("limits", "problem", text, "docker run --ipc=host, or --shm-size=16g")
    return Finding("limits", "ok", text)
