"""What was measured stays in its file however a benchmark ends, and how to go on with it."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dflash_deploy.cli import _output
from dflash_deploy.errors import DFlashError, Interrupted, UsageError, unread
from dflash_deploy.launch import state
from dflash_deploy.measure import results
from dflash_deploy.measure.resuming import going_on
from dflash_deploy.measure.team import launched
from dflash_deploy.plan import without_password


@contextmanager
def alone(path: Path, resume: Path | None) -> Iterator[None]:
    """The file is this command's until the block ends. Raises UsageError where it cannot be."""
    from filelock import FileLock, Timeout

    results.check_writable(path)
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    file = state.root() / "reports" / f"{name}.lock"
    lock = FileLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(
            f"another benchmark writes to {path}", hint="--output FILE, one of its own"
        ) from error
    except OSError as error:  # nowhere to say so: as long as nobody else does the same, all is well
        _output.warning(f"another benchmark that writes to {path} goes unseen: {unread(error)}")
    try:
        _check_new(path, resume)
        yield
    finally:
        lock.release()


def _check_new(path: Path, resume: Path | None) -> None:
    if path.exists() and path != resume:
        raise UsageError(
            f"{path} is there already, and would be lost",
            hint=f"--resume {shlex.quote(str(path))} goes on with it; or another --output",
        )


@contextmanager
def keeping(
    runs: Callable[[], int], path: Path, told: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Whatever ends the block is told with the command that goes on.

    `runs`: how many are in the file; `told`: shows all that was measured, if that is anything.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not runs():
            raise Interrupted("interrupted before a run was complete", hint=typed()) from None
        with suppress(KeyboardInterrupt):  # the second one is in a hurry
            told()
        raise Interrupted(f"interrupted: {_kept(runs(), path)}", hint=to_resume(path)) from None
    except (DFlashError, SystemExit) as error:
        # a signal ends it by SystemExit: a batch system's time is over, a terminal is gone
        if not runs() and isinstance(error, SystemExit):
            _output.note(f"ended by a signal before a run was complete; again: {typed()}")
        if isinstance(error, DFlashError):
            told()  # a disk that is full takes no report, and a terminal does
        if runs():
            _output.note(f"{_kept(runs(), path)}; {to_resume(path)} goes on")
        raise


def to_resume(path: Path) -> str:
    return without_password(going_on([*launched(), *sys.argv[1:]], path))


def typed() -> str:
    return without_password(shlex.join([*launched(), *sys.argv[1:]]))


def _kept(runs: int, path: Path) -> str:
    return f"{runs} run{'s are' if runs > 1 else ' is'} in {path}"
