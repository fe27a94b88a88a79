"""`dflash stop`: servers ended, with all their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli.logs import NameArg

if TYPE_CHECKING:
    from dflash_deploy.launch.state import Record


def stop(
    name: NameArg = "",
    *,
    every: Annotated[bool, typer.Option("--all", help="All that `dflash ps` shows.")] = False,
) -> None:
    """Stop a server and wait until all its processes are gone. One that is gone is no error."""
    from concurrent.futures import ThreadPoolExecutor

    from dflash_deploy.errors import UsageError
    from dflash_deploy.launch import containers, servers, state
    from dflash_deploy.launch.named import named

    if every == bool(name):
        raise UsageError("one server, or all of them", hint="dflash stop NAME, or --all")
    found = None if every else named(name, "stop")
    if not every and found is None and not servers.ran(name):
        raise servers.unknown(name)
    meant = (
        [*state.every()[0], *containers.reported(_output.warning)]
        if every
        else [found]
        if found
        else []
    )
    boxes = [one for one in meant if isinstance(one, containers.BoxedServer)]
    wanted = [one for one in meant if isinstance(one, state.Record)]
    with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
        list(pool.map(_stop, wanted))
    for box in boxes:
        containers.stop(box.name)
        _output.note(f"stopped {box.name}" if not box.ended else f"removed {box.name}")
    if not wanted and not boxes:
        _output.note("no server runs" if every else f"{name} does not run")


def _stop(record: Record) -> None:
    from dflash_deploy.launch import servers

    ran = record.alive
    servers.stop(record, say=_output.note)
    _output.note(f"stopped {record.name}" if ran else f"{record.name} had ended already")
