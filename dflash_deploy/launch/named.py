"""Which server is meant by a name, or has a port: a process of ours or a container."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_deploy.errors import DFlashError, PortTaken, UnknownModel, UsageError
from dflash_deploy.launch import containers, state
from dflash_deploy.launch.ports import check_port
from dflash_deploy.launch.seen import Server
from dflash_deploy.registry import load


def named(name: str, wanted: str) -> Server | None:
    """By its name, the part of it before the port, the port or the model; None: no such server.

    `wanted`: the command that asks, which is the next one as well where several are meant: nobody
    who wants to read is told how to end one.
    Raises UsageError where several are meant, EngineError if only Docker could tell and does not.
    """
    processes = state.every()[0]
    exact = [record for record in processes if record.name == name]
    if exact:
        return exact[0]  # nobody else has to be asked
    model = _model(name)
    found: list[Server] = list(_meant(name, model, processes))
    try:
        boxes = containers.every()
    except DFlashError:
        if not found:
            raise
        boxes = []
    if exact_box := [box for box in boxes if box.name == name]:
        return exact_box[0]
    found += _meant(name, model, boxes)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise UsageError(f"`{name}` may be {names}", hint=f"dflash {wanted} {found[0].name}")
    return found[0] if found else None


def check_port_free(host: str, port: int) -> None:
    """As `check_port`; of a container of ours that has it, Docker's proxy is not the name."""
    try:
        check_port(host, port)
    except PortTaken as error:
        for box in containers.reported():
            if box.port == port and box.ended is None:
                raise PortTaken(
                    f"port {port} is taken by {box.name}, which runs since {box.since}",
                    hint=f"dflash stop {box.name}, or {error.hint}",
                ) from error
        raise


def _model(name: str) -> str:
    """The entry that goes by this name, if any does."""
    try:
        return load(user=False).find(name).id
    except UnknownModel:
        return name


def _meant(name: str, model: str, servers: Iterable[Server]) -> Iterable[Server]:
    for one in servers:
        short = one.name.removeprefix("dflash-")
        if name in (short, short.rpartition("-")[0], str(one.port)) or one.model == model:
            yield one
