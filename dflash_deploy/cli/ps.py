"""`dflash ps`: the servers that run, and how each is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from dflash_deploy.launch.state import Record


CHECK_TIMEOUT = 25.0


def ps(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 7 unless one runs and every one is ready.")
    ] = False,
    json: opt.JsonOpt = False,
) -> None:
    """List the servers that `dflash serve` started, and ask each how it is."""
    from dflash_deploy.launch import state
    from dflash_deploy.launch.servers import sweep

    for gone in sweep():
        _output.warning(f"{gone.name} was killed; what it left is cleared away"
                        + (f", its log is {gone.log}" if gone.log else ""))  # fmt: skip
    records, unread = state.every()
    for path in unread:
        _output.warning(f"{path} is no server's file: rm {path}")
    states = _states(records, CHECK_TIMEOUT if check else None)
    if json:
        _output.json([_document(*pair) for pair in zip(records, states, strict=True)])
    elif records:
        _show(records, states)
    elif not check:
        _output.note("no server runs: dflash serve MODEL --detach")
    if check:
        _check(records, states)


def _check(records: list[Record], states: list[str]) -> None:
    """What a container's health check and a script that waits want to know. Raises LaunchError."""
    from dflash_deploy.errors import LaunchError
    from dflash_deploy.launch.servers import READY

    if not records:
        raise LaunchError("no server runs", hint="dflash serve MODEL --detach")
    for record, words in zip(records, states, strict=True):
        if words != READY:
            raise LaunchError(f"{record.name}: {words}", hint=f"dflash logs {record.name}")


def _states(records: list[Record], patience: float | None) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    from dflash_deploy.launch.servers import HEALTH_TIMEOUT, condition
    from dflash_deploy.launch.signs import signs
    from dflash_deploy.registry import load

    if not records:
        return []
    engines = load(user=False).engines
    with ThreadPoolExecutor(max_workers=16) as pool:
        return list(
            pool.map(
                lambda each: condition(
                    each, signs(engines[each.engine], each.version), patience or HEALTH_TIMEOUT
                ),
                records,
            )
        )


def _show(records: list[Record], states: list[str]) -> None:
    columns = (
        _output.Column("NAME"), _output.Column("MODEL", wrap=True), _output.Column("ENGINE"),
        _output.Column("PORT", right=True), _output.Column("STATE", wrap=True),
        _output.Column("SINCE", right=True),
    )  # fmt: skip
    now = datetime.now(UTC)
    rows = [
        (
            record.name, record.model, f"{record.engine} {record.version}", str(record.port),
            words + (f", restarted {record.restarts}x" if record.restarts else ""),
            ago(now - datetime.fromisoformat(record.since)),
        )
        for record, words in zip(records, states, strict=True)
    ]  # fmt: skip
    _output.table(columns, rows)


def _document(record: Record, words: str) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(record), "state": words}


def ago(passed: Any) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int(passed.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
