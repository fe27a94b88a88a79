"""`dflash ps`: the servers that run, and how each is."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from dflash_deploy.launch.seen import Seen, Server

NONE = "no server runs: dflash serve MODEL --detach"
CHECK_TIMEOUT = 25.0


def ps(
    *,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit 7 unless all are ready, 8 if a draft is of no use."),
    ] = False,
    json: opt.JsonOpt = False,
) -> None:
    """List the servers that run, with state and acceptance length. Those in containers too."""
    from dflash_deploy.launch import containers, state
    from dflash_deploy.launch.servers import HEALTH_TIMEOUT, sweep

    for gone in sweep():
        _output.warning(f"{gone.name} was killed; what it left is cleared away"
                        + (f", its log is {gone.log}" if gone.log else ""))  # fmt: skip
    records, unread = state.every()
    for path in unread:
        away = "rm -r" if path.is_dir() and not path.is_symlink() else "rm"
        _output.warning(f"{path} is no server's file: {away} {shlex.quote(str(path))}")
    seen = _seen(
        [*records, *containers.reported(_output.warning)],
        CHECK_TIMEOUT if check else HEALTH_TIMEOUT,
    )
    if json:
        _output.json([document(each) for each in seen])
    elif seen:
        _show(seen)
    elif not check:
        _output.note(NONE)
    for each in seen:
        if each.speculation == state.UNPROVEN and not json:
            _output.note(f"{each.record.name} was not seen to speculate yet: {_proof_of(each)}")
    if check:
        _check(seen)


def _proof_of(each: Seen) -> str:
    """What makes it count: an answer long enough for its drafts to be seen."""
    return f"dflash chat {each.record.base_url} --ask 'Count to 50'"


def _check(seen: list[Seen]) -> None:
    """What a container's health check and a script that waits want to know.

    Raises LaunchError for one that is not ready, GateFailed for one whose draft is of no use.
    """
    from dflash_deploy.errors import GateFailed, LaunchError
    from dflash_deploy.launch.servers import READY
    from dflash_deploy.launch.state import UNCHECKED, UNPROVEN
    from dflash_deploy.measure.verdict import ACTIVE

    if not seen:
        raise LaunchError("no server runs", hint="dflash serve MODEL --detach")
    for each in seen:
        if not each.state.startswith(READY):
            name = each.record.name
            raise LaunchError(f"{name}: {each.state}", hint=f"dflash logs {name}")
    for each in seen:
        if each.speculation == UNPROVEN:
            raise LaunchError(f"{each.record.name}: {each.state}", hint=_proof_of(each))
    for each in seen:
        if each.speculation not in (*ACTIVE, UNCHECKED):
            model, engine = each.record.model, each.record.engine
            raise GateFailed(f"{each.record.name}: {each.state}",
                             hint=f"dflash plan {model} --engine {engine} --why")  # fmt: skip


def _seen(servers: list[Server], patience: float) -> list[Seen]:
    from dflash_deploy.launch.seen import glance
    from dflash_deploy.registry import load

    return glance(load(user=False).engines, servers, patience) if servers else []


def _show(seen: list[Seen]) -> None:
    columns = (
        _output.Column("NAME"), _output.Column("MODEL", wrap=True), _output.Column("ENGINE"),
        _output.Column("PORT", right=True, extra=1), _output.Column("STATE", wrap=True),
        _output.Column("ACCEPT", right=True), _output.Column("SINCE", right=True),
    )  # fmt: skip
    now = datetime.now(UTC)
    rows = [
        (
            each.record.name, each.record.model, f"{each.record.engine} {each.record.version}",
            str(each.record.port),
            each.state + (f", restarted {each.record.restarts}x" if each.record.restarts else ""),
            two_places(each.numbers.acceptance_length),
            ago(now - datetime.fromisoformat(each.record.since)),
        )
        for each in seen
    ]  # fmt: skip
    _output.table(columns, rows)


def document(seen: Seen) -> dict[str, Any]:
    """A server as JSON: its record, its state and its numbers."""
    import msgspec

    from dflash_deploy.plan import without_password

    return {
        **msgspec.structs.asdict(seen.record),
        "base_url": without_password(seen.record.base_url),
        "state": seen.state,
        "speculation": seen.speculation,
        "numbers": seen.numbers,
    }


def two_places(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


def ago(passed: Any) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int(passed.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
