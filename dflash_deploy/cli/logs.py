"""`dflash logs`: what a detached server wrote."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from dflash_deploy.launch.containers import BoxedServer

NameArg = Annotated[str, typer.Argument(metavar="NAME", help="As `dflash ps` shows it.")]


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
    """Print the log of a detached server or of a container, also after its end."""
    from pathlib import Path

    from dflash_deploy.errors import UsageError
    from dflash_deploy.launch import containers, journal, state
    from dflash_deploy.launch.servers import named, unknown

    record = named(name)
    if record and record.log is None:
        raise UsageError(f"{record.name} runs in the foreground: its terminal has its log")
    if record is None and (boxes := boxed(name)):
        _show(containers.logs(boxes[0].name, follow=follow, last=lines))
        return
    path = Path(record.log) if record and record.log else state.log_of(name)
    if record is None and (Path(name).name != name or not path.exists()):
        raise unknown(name)

    def goes_on() -> bool:
        return bool(follow and record and record.alive)

    _show(journal.follow(path, goes_on, last=lines))


def boxed(name: str | None) -> list[BoxedServer]:
    """The servers in containers of that name, in full, without the `dflash-`, or by the port."""
    from dflash_deploy.launch import containers

    return [
        box
        for box in containers.every()
        if name in (None, box.name, box.name.removeprefix("dflash-"), str(box.port))
    ]


def _show(chunks: Iterator[bytes]) -> None:
    text = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        _output.fragment(text.decode(chunk))
