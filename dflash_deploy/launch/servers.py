"""The servers that run: whose port it is, how they are, and how they are ended."""

from __future__ import annotations

import glob
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from dflash_deploy.errors import LaunchError, PortTaken, UsageError
from dflash_deploy.launch import journal, state
from dflash_deploy.launch.ports import free_port
from dflash_deploy.launch.process import GRACE, end_marked
from dflash_deploy.launch.signs import Signs
from dflash_deploy.measure.connection import certificates

MARGIN = 5.0
"""Seconds beyond the engine's own grace: its helpers are ended after it."""
STEP = 0.05
HEALTH_TIMEOUT = 2.0
READY = "ready"


def check_not_ours(host: str, port: int) -> None:
    """Raises PortTaken, naming the server of ours that has the port."""
    for record in state.every()[0]:
        if record.alive and port == record.port:
            free = free_port(host, port)
            raise PortTaken(
                f"port {port} is taken by {record.name}, which runs since {record.since}",
                hint=f"dflash stop {record.name}" + (f", or --port {free}" if free else ""),
            )


@contextmanager
def claim(record: state.Record) -> Iterator[None]:
    """The block starts the server and writes its record; two at once cannot both. LaunchError."""
    with state.alone():
        check_not_ours(record.host, record.port)
        yield


@contextmanager
def listed(record: state.Record, warn: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """In the block this process's own server is known to others.

    Call what it yields when the server is ready, with what the check found of its draft.

    One that ends with its command is none the worse where nothing can be written: `warn` hears it.
    Raises PortTaken.
    """
    try:
        with claim(record):
            state.write(record)
    except PortTaken:
        raise
    except LaunchError as error:
        warn(f"{error.message}: `dflash ps` will not show this server")

    def ready(speculation: str) -> None:
        with suppress(LaunchError):
            state.write(msgspec.structs.replace(record, ready=True, speculation=speculation))

    try:
        yield ready
    finally:
        state.remove(record)


def sweep() -> list[state.Record]:
    """Forget those whose process was killed, and end what it left; which they were."""
    if not _left_behind():
        return []
    with state.alone():
        gone = _left_behind()
        for record in gone:
            end_marked(record.launch_id)
            state.remove(record)
    return gone


def _left_behind() -> list[state.Record]:
    return [record for record in state.every()[0] if not record.alive and record.ended is None]


def condition(record: state.Record, signs: Signs, patience: float = HEALTH_TIMEOUT) -> str:
    """`ready`, how far a start is, `not answering`, or how it ended.

    `patience`: seconds for its answer; SGLang generates a token for it, in the queue.
    """
    if record.ended:
        return record.ended
    if healthy(record.base_url + record.health_path, patience):
        return READY
    if record.ready:
        return "not answering"
    lines = journal.last_lines(Path(record.log)) if record.log else []
    return signs.last_phase(journal.of_this_life(lines)) or "starting"


def healthy(url: str, patience: float) -> bool:
    """Whether a 200 comes from it within so many seconds."""
    import httpx

    try:
        answer = httpx.get(url, timeout=patience, trust_env=False, verify=certificates())
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return answer.status_code == httpx.codes.OK


def ran(name: str) -> bool:
    """Whether a server of that name, in full or in part, left its log here."""
    logs = state.log_of("x").parent
    plain = Path(name).name == name
    return plain and (
        state.log_of(name).exists() or any(logs.glob(f"{glob.escape(name)}-[0-9]*.log"))
    )


def unknown(name: str) -> UsageError:
    """For a name that no server has or had."""
    names = ", ".join(record.name for record in state.every()[0])
    hint = f"one of: {names}" if names else "dflash ps"
    return UsageError(f"no server `{name}`", hint=hint)


def stop(
    record: state.Record,
    *,
    grace: float = GRACE + MARGIN,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """End a server and all its processes, and wait until they are gone.

    Only a process that began when the record says gets a signal; what else carries the mark of
    this launch in its environment is its own.
    """
    signalled(record, signal.SIGTERM)
    if not _gone(record, grace):
        say(f"{record.name} did not stop within {grace:g} s: killing it")
        signalled(record, signal.SIGKILL)
        _gone(record, MARGIN)
    end_marked(record.launch_id)
    state.remove(record)


def signalled(record: state.Record, number: int) -> None:
    """Send a signal to the keeper, if it is still the one that the record speaks of."""
    try:
        # held open, the descriptor stays with this process whatever its id is given to
        descriptor = os.pidfd_open(record.pid)
    except (OSError, AttributeError):
        if record.alive:
            with suppress(ProcessLookupError):
                os.kill(record.pid, number)
        return
    try:
        if record.alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _gone(record: state.Record, patience: float) -> bool:
    until = time.monotonic() + patience
    while record.alive:
        if time.monotonic() > until:
            return False
        time.sleep(STEP)
    return True
