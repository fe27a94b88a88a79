"""`dflash stop`: servers ended, with all their processes."""

from __future__ import annotations

from typing import Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli.logs import NameArg


def stop(
    name: NameArg = "",
    *,
    every: Annotated[bool, typer.Option("--all", help="All that `dflash ps` shows.")] = False,
) -> None:
    """Stop a server and wait until all its processes are gone. One that is gone is no error."""
    from dflash_deploy.errors import UsageError
    from dflash_deploy.launch import servers, state

    if every == bool(name):
        raise UsageError("one server, or all of them", hint="dflash stop NAME, or --all")
    record = None if every else servers.named(name)
    if not every and record is None and not servers.ran(name):
        raise servers.unknown(name)
    wanted = state.every()[0] if every else [record] if record else []
    for each in wanted:
        ran = each.alive
        servers.stop(each, say=_output.note)
        _output.note(f"stopped {each.name}" if ran else f"{each.name} had ended already")
    if not wanted:
        _output.note("no server runs" if every else f"{name} does not run")
