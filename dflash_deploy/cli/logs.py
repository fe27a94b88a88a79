"""`dflash logs`: what a detached server wrote."""

from __future__ import annotations

import codecs
from typing import Annotated

import typer

from dflash_deploy.cli import _output

NameArg = Annotated[str, typer.Argument(metavar="NAME", help="As `dflash ps` shows it.")]


def logs(
    name: NameArg,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the server ends.")
    ] = False,
) -> None:
    """Print the log of a server that was started with --detach, also after its end."""
    from pathlib import Path

    from dflash_deploy.errors import UsageError
    from dflash_deploy.launch import journal, state
    from dflash_deploy.launch.servers import named, unknown

    record = named(name)
    if record and record.log is None:
        raise UsageError(f"{record.name} runs in the foreground: its terminal has its log")
    path = Path(record.log) if record and record.log else state.log_of(name)
    if record is None and (Path(name).name != name or not path.exists()):
        raise unknown(name)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in journal.follow(path, lambda: bool(follow and record and record.alive)):
        _output.fragment(text.decode(chunk))
