"""Servers in containers, found again by their labels: by any shell, whatever state we keep."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from packaging.version import InvalidVersion, Version

from dflash_deploy.errors import DFlashError
from dflash_deploy.launch.container import GRACE
from dflash_deploy.launch.daemon import connected, reachable, told
from dflash_deploy.launch.endings import in_words
from dflash_deploy.launch.servers import READY, healthy
from dflash_deploy.launch.signs import Signs
from dflash_deploy.launch.state import UNCHECKED
from dflash_deploy.schema import EngineName

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container as Running

LABEL = "dflash.model"
LAST_LINES = 200
KILLED = 137
CONFLICT = 409


class BoxedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A container of ours, as its labels and the daemon tell of it."""

    name: str
    model: str
    draft: str
    engine: EngineName
    version: str
    port: int
    base_url: str
    health_path: str
    since: str
    """When it was last started, in ISO 8601."""
    restarts: int
    container: str
    """Its id, short."""
    ended: str | None
    """How it ended, if it does not run."""
    unhealthy: bool
    last_lines: tuple[str, ...] = ()
    expected_length: float | None = None
    """The lowest acceptance length on record, if its labels say one."""
    speculation: str | None = None
    """The daemon keeps no word of the check: its counters tell. A router has none of these."""
    ready: bool = True
    """Nobody here is about to prove it."""

    @property
    def served_names(self) -> tuple[str, ...]:
        return (self.model,)

    @property
    def launch_id(self) -> str:
        return self.container


def every() -> list[BoxedServer]:
    """All of them by name; none where no daemon can be. Raises EngineError."""
    if not reachable():
        return []
    with connected() as client, told():
        return sorted(map(_read, _ours(client)), key=lambda box: box.name)


def reported(say: Callable[[str], None] = lambda _: None) -> list[BoxedServer]:
    """All of them; a daemon that fails is told, and hides no other server."""
    try:
        return every()
    except DFlashError as error:
        say(f"servers in containers are not shown: {error.message}")
        return []


def condition(box: BoxedServer, signs: Signs, patience: float) -> str:
    """As `servers.condition` says it of a process."""
    if box.ended:
        return box.ended
    if healthy(box.base_url + box.health_path, patience):
        return READY
    if box.unhealthy:
        return "unhealthy"
    return signs.last_phase(box.last_lines) or "starting"


def logs(name: str, *, follow: bool, last: int | None = None) -> Iterator[bytes]:
    """What a container wrote, and with `follow` what it writes until it ends.

    `last`: of what is there at first, only so many lines.
    """
    with connected() as client, told(name=name):
        found = client.containers.get(name)
        yield from found.logs(stream=True, follow=follow, tail="all" if last is None else last)


def stop(name: str) -> bool:
    """End a container and remove it; whether it ran."""
    from docker.errors import NotFound

    with connected() as client, told():
        try:
            found = client.containers.get(name)
            ran = found.status == "running"
            # else the daemon starts it again between the two
            found.update(restart_policy={"Name": "no"})
            found.stop(timeout=GRACE)
            _remove(found)
        except NotFound:
            return False
    return bool(ran)


def _remove(found: Running) -> None:
    """One that its own command is removing meanwhile goes as well."""
    from docker.errors import APIError, NotFound

    try:
        found.remove(force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != CONFLICT:
            raise


def _ours(client: docker.DockerClient) -> list[Running]:
    # one that goes while they are read is no failure
    return list(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))


def _read(found: Running) -> BoxedServer:
    state = found.attrs["State"]
    ended = None
    if state["Status"] not in ("running", "restarting"):
        code = int(state["ExitCode"])
        ended = "ran out of memory" if state.get("OOMKilled") else how(code)
    return BoxedServer(
        **labelled(found.labels), name=str(found.name),
        since=_seconds(state["StartedAt"]), restarts=int(found.attrs.get("RestartCount", 0)),
        container=str(found.short_id), ended=ended,
        unhealthy=(state.get("Health") or {}).get("Status") == "unhealthy",
        last_lines=() if ended else _last_lines(found),
    )  # fmt: skip


def _last_lines(found: Running) -> tuple[str, ...]:
    """None of a container that has just gone, or whose logging driver keeps nothing to read."""
    from docker.errors import APIError

    with suppress(APIError):
        return tuple(found.logs(tail=LAST_LINES).decode("utf-8", "replace").splitlines())
    return ()


def labelled(labels: Mapping[str, str]) -> dict[str, Any]:
    """What labels tell of a server. Anybody writes labels: one that means nothing tells nothing."""
    engine, port = labels.get("dflash.engine"), labels.get("dflash.port", "")
    return {
        "model": labels[LABEL],
        "draft": labels.get("dflash.draft", ""),
        "engine": engine if engine in get_args(EngineName) else "vllm",
        "version": _release(labels.get("dflash.version", "")),
        "port": int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0,
        "base_url": labels.get("dflash.url", ""),
        "health_path": labels.get("dflash.health", "/health"),
        "expected_length": _length(labels.get("dflash.acceptance", "")),
        "speculation": UNCHECKED if "dflash.replicas" in labels else None,
    }


def _release(said: str) -> str:
    try:
        Version(said)
    except InvalidVersion:
        return ""
    return said


def _length(said: str) -> float | None:
    with suppress(ValueError):
        return length if math.isfinite(length := float(said)) else None
    return None


def how(code: int) -> str:
    """Docker knows when memory was the reason: another SIGKILL was somebody's."""
    return "was killed (SIGKILL)" if code == KILLED else in_words(code)


def _seconds(stamp: str) -> str:
    """Docker's nanoseconds are more than ISO 8601 readers take."""
    whole = stamp.partition(".")[0].rstrip("Z")
    # one that never ran says the year 1
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
