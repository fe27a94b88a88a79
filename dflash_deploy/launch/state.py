"""What is known of the servers that run: a file each, under the user's state folder.

`$XDG_STATE_HOME/dflash/servers/<name>.json`, written whole or not at all. A process is known by its
id and by when it began: an id that the system gave to another program since is nobody's server.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.version import Version

from dflash_deploy.errors import LaunchError
from dflash_deploy.schema import EngineName

SCHEMA = "dflash.server/1"
UNCHECKED, UNPROVEN = "unchecked", "unproven"
"""Nobody wanted a check of the draft; or it could not be made."""
LOCK_TIMEOUT = 10.0
"""Seconds to wait for another command that reads or writes a file here."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The plan in short."""

    draft: str
    block_size: int
    context: int
    concurrency: int
    tensor_parallel: int
    expected_length: float | None = None
    """The lowest acceptance length on record for it."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One server: who keeps it, where it answers, and what became of it."""

    schema: str = SCHEMA
    name: str
    model: str
    engine: EngineName
    version: str
    host: str
    port: int
    base_url: str
    health_path: str
    served_names: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    argv: tuple[str, ...]
    """As planned: secrets are added where it is started, and are in no file."""
    plan: Summary
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    """Of the process that ends the whole tree when it is told to."""
    began: str
    """When that process began, see `beginning`."""
    launch_id: str
    """The mark that its processes carry in their environment."""
    since: str
    """When it was started, in ISO 8601."""
    detached: bool
    log: str | None = None
    restart: int = 0
    """Crashes after which it is started again, at most."""
    restarts: int = 0
    ready: bool = False
    """Whether it was seen healthy since it last started."""
    speculation: str | None = None
    """What the last acceptance check found: `fine`, `collapsed`; UNCHECKED or UNPROVEN where there
    was none. None: it is still to come.
    """
    ended: str | None = None
    """How it ended, if nobody asked it to."""

    @property
    def expected_length(self) -> float | None:
        return self.plan.expected_length

    @property
    def alive(self) -> bool:
        return beginning(self.pid) == self.began


def root() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("dflash", appauthor=False))


def folder() -> Path:
    return root() / "servers"


def file_of(name: str) -> Path:
    return folder() / f"{name}.json"


def log_of(name: str) -> Path:
    return root() / "logs" / f"{name}.log"


def beginning(pid: int) -> str | None:
    """What tells a process from a later one with the same id; None: no such process runs."""
    with suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        # ticks since the boot, which no change of the clock moves; and which boot that was
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if stat[0] in (b"Z", b"X") else f"{boot}/{stat[19].decode()}"
    if Path("/proc/self/stat").exists():
        return None
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return None


def every() -> tuple[list[Record], list[Path]]:
    """All records by name, and the files that hold none."""
    found, unread = [], []
    for path in sorted(folder().glob("*.json")):
        record = read(path)
        if record is not None:
            found.append(record)
        elif path.exists():
            unread.append(path)
    return found, unread


def read(path: Path) -> Record | None:
    """None for a file that is gone, torn, of another release or no file at all."""
    try:
        if not path.is_file():
            return None  # from a pipe or a device there would be no end of reading
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        Version(record.version)
        dated = datetime.fromisoformat(record.since).tzinfo is not None
    except (OSError, ValueError):
        return None
    return record if dated and record.schema == SCHEMA and record.name == path.stem else None


@contextmanager
def alone() -> Iterator[None]:
    """One command at a time looks and writes. Raises LaunchError."""
    from filelock import FileLock, Timeout

    try:
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(folder() / ".lock")
        lock.acquire(timeout=LOCK_TIMEOUT)
    except Timeout as error:
        raise LaunchError(
            f"another command holds {folder() / '.lock'}", hint="try again when it has ended"
        ) from error
    except OSError as error:
        raise unwritable(error) from error
    try:
        yield
    finally:
        lock.release()


def write(record: Record) -> None:
    """Put a record in its place, whole. Raises LaunchError."""
    target = file_of(record.name)
    part = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(target)
    except OSError as error:
        if part:
            with suppress(OSError):
                Path(part).unlink(missing_ok=True)
        raise unwritable(error) from error


def remove(record: Record) -> None:
    """Forget a server, unless its name belongs to a later one by now."""
    with suppress(OSError):
        found = read(file_of(record.name))
        if found is None or found.launch_id == record.launch_id:
            file_of(record.name).unlink(missing_ok=True)


def unwritable(error: OSError) -> LaunchError:
    return LaunchError(
        f"{root()} cannot be written: {error.strerror or error}",
        hint=f"df -h {shlex.quote(str(root()))}, or XDG_STATE_HOME=/another/folder",
    )
