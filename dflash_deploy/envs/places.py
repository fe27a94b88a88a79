"""Where the environments are, and which of them are whole.

`$XDG_DATA_HOME/dflash/engines/<engine>-<version>`. An environment is built where it stays: its
scripts carry absolute paths, and a rename would break them. What makes it one is the marker file,
written last and at once: whatever dies before leaves a folder without it, which nobody takes for
an engine and the next install removes.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from dflash_deploy.errors import EngineError
from dflash_deploy.reach import is_version
from dflash_deploy.schema import EngineName

MARKER = "dflash-engine.json"
State = Literal["ready", "broken", "installing", "unfinished"]
Say = Callable[[str], None]


class Marker(msgspec.Struct, frozen=True):
    """What is known of an environment since it was checked."""

    engine: str
    version: str
    executable: str
    size: int
    """Bytes, as laid on the disk."""
    installed: str
    """When, in ISO 8601."""
    packages: int | None = None
    uv: str | None = None


class Environment(msgspec.Struct, frozen=True):
    """A folder of `root()`, whole or not."""

    engine: str
    version: str
    path: Path
    state: State
    marker: Marker | None = None

    @property
    def executable(self) -> Path:
        return self.path / "bin" / (self.marker.executable if self.marker else self.engine)


def root() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("dflash", appauthor=False)) / "engines"


def folder(engine: str, version: str) -> Path:
    return root() / f"{engine}-{version}"


def read(path: Path, *, busy: bool = False) -> Environment:
    """One folder; `busy`: an install runs, so that what is not whole may become so."""
    engine, _, version = path.name.partition("-")
    try:
        marker = msgspec.json.decode((path / MARKER).read_bytes(), type=Marker)
    except (OSError, msgspec.DecodeError):
        return Environment(engine, version, path, "installing" if busy else "unfinished")
    whole = Environment(marker.engine, marker.version, path, "ready", marker)
    # the interpreter is a link to a Python that may be gone since
    if os.access(whole.executable, os.X_OK) and (path / "bin" / "python").exists():
        return whole
    return msgspec.structs.replace(whole, state="broken")


def every() -> list[Environment]:
    """All folders, by engine and from the oldest release to the newest."""
    from packaging.version import InvalidVersion, Version

    def order(each: Environment) -> tuple[str, Version]:
        try:
            return each.engine, Version(each.version)
        except InvalidVersion:
            return each.engine, Version("0")

    with suppress(OSError):
        busy = locked()
        return sorted((read(path, busy=busy) for path in _folders()), key=order)
    return []


def _folders() -> list[Path]:
    if not root().is_dir():
        return []
    return [
        path for path in root().iterdir()
        if _is_named(path.name) and path.is_dir() and not path.is_symlink()
    ]  # fmt: skip


def _is_named(name: str) -> bool:
    """As an environment is: any other folder is somebody else's, not listed and not swept away."""
    engine, dash, version = name.partition("-")
    return bool(dash) and engine in get_args(EngineName) and is_version(version)


def locked() -> bool:
    """Whether somebody installs or removes right now."""
    from filelock import FileLock, Timeout

    if not _lock_file().exists():
        return False
    try:
        with FileLock(_lock_file(), timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder of another user: read, never written
        return False


@contextmanager
def alone(say: Say) -> Iterator[None]:
    """One install or removal at a time; others wait, and say so. A killed one waits for nobody."""
    from filelock import FileLock, Timeout

    try:
        root().mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_file())
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say("another `dflash engine` command is at work; waiting for it (Ctrl-C gives up)")
            lock.acquire()
    except OSError as error:
        raise EngineError(
            f"{root()} cannot be written: {error.strerror}",
            hint="XDG_DATA_HOME=/another/folder, or mend its permissions",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _lock_file() -> Path:
    return root() / ".lock"


def sweep(say: Say) -> None:
    """Remove what died half-way. Only while `alone`."""
    for path in _folders():
        if read(path).state == "unfinished":
            say(f"removing {path}, left by an install that did not end")
            erase(path)


def erase(path: Path) -> None:
    """The marker goes first: a removal that is killed leaves nothing that looks whole."""
    try:
        (path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(path)
    except OSError as error:
        raise EngineError(
            f"{path} cannot be removed: {error.strerror}", hint=f"rm -r {shlex.quote(str(path))}"
        ) from error


def mark(path: Path, marker: Marker) -> None:
    """From now on it is an engine."""
    part = path / f"{MARKER}.part"
    with part.open("wb") as file:
        file.write(msgspec.json.encode(marker))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path / MARKER)


def size_of(path: Path) -> int:
    """Bytes on the disk of all files; one that has several names counts once."""
    seen: set[int] = set()
    total = 0
    for where, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                status = (Path(where) / name).lstat()
                if status.st_ino not in seen:
                    seen.add(status.st_ino)
                    total += status.st_blocks * 512
    return total
