"""Where a benchmark runs: what a reader must know of it, and no name of it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import msgspec

from dflash_deploy import __version__
from dflash_deploy.hardware import Hardware
from dflash_deploy.measure.report import Machine

GIB = 2**30


def this_machine(hardware: Hardware, versions: dict[str, str]) -> Machine:
    """`versions`: what is known of the engine; Python and this project are added."""
    import psutil

    return Machine(
        hardware=unnamed(hardware),
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / GIB, 1),
        versions={
            "dflash-deploy": __version__,
            "python": platform.python_version(),
            **versions,
        },
    )


def engine_versions(engine: str, version: str | None) -> dict[str, str]:
    """The engine's release; of the embedded one the libraries that it computes with."""
    if engine != "transformers":
        return {engine: version} if version else {}
    found = {}
    for name in ("torch", "transformers"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def unnamed(hardware: Hardware) -> Hardware:
    """Without the serial numbers of its cards: a report is meant to be shown."""
    cards = tuple(msgspec.structs.replace(card, uuid=None) for card in hardware.cards)
    hidden = tuple(
        msgspec.structs.replace(each, card=msgspec.structs.replace(each.card, uuid=None))
        for each in hardware.hidden
    )
    return msgspec.structs.replace(hardware, cards=cards, hidden=hidden)


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
