"""`dflash logs`: what a server wrote, also after its end."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Annotated

import typer

from dflash_deploy.cli import _output

NameArg = Annotated[
    str, typer.Argument(metavar="NAME", help="As `dflash ps` shows it; the model or port will do.")
]


def logs(
    name: NameArg,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the server ends.")
    ] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="Begin with the last N lines.")
    ] = None,
) -> None:
    """Print the log of a server. Detached, in a container or measured, also after its end."""
    from pathlib import Path

    from dflash_deploy.errors import UsageError
    from dflash_deploy.launch import containers, journal, state
    from dflash_deploy.launch.named import named
    from dflash_deploy.launch.servers import unknown

    found = named(name, "logs")
    if isinstance(found, containers.BoxedServer):
        _show(containers.logs(found.name, follow=follow, last=lines))
        return
    record = found
    if record and record.log is None:
        raise UsageError(f"{record.name} runs in the foreground: its terminal has its log")
    path = Path(record.log) if record and record.log else state.log_of(name)
    if record is None and (Path(name).name != name or not path.exists()):
        raise unknown(name)

    def goes_on() -> bool:
        return bool(follow and record and record.alive)

    _show(journal.follow(path, goes_on, last=lines))


def _show(chunks: Iterator[bytes]) -> None:
    text = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        _output.fragment(text.decode(chunk))
