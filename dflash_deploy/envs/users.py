"""Which processes run from an environment."""

from __future__ import annotations

from contextlib import suppress

from dflash_deploy.envs.places import Environment
from dflash_deploy.errors import EngineError


def users(found: Environment) -> list[int]:
    """Process ids: an engine's first words are its interpreter and its script, both in there."""
    import psutil

    inside = f"{found.path}/"
    pids = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(word.startswith(inside) for word in process.cmdline()[:4]):
                pids.append(process.pid)
    return pids


def refuse_in_use(found: Environment) -> None:
    if pids := users(found):
        raise EngineError(
            f"{found.engine} {found.version} is in use by process {', '.join(map(str, pids))}",
            hint=f"kill {pids[0]}, then the same command again",
        )
