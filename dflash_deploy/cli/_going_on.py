"""What was measured stays in its file however a benchmark ends, and how to go on with it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dflash_deploy.cli import _output
from dflash_deploy.errors import DFlashError, Interrupted
from dflash_deploy.measure.resuming import going_on
from dflash_deploy.plan import without_password


@contextmanager
def keeping(
    runs: Callable[[], int], path: Path, told: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Whatever ends the block is told with the command that goes on.

    `runs`: how many are in the file; `told`: shows them to who interrupts.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not runs():
            raise Interrupted("interrupted before a run was complete", hint=_typed()) from None
        with suppress(KeyboardInterrupt):  # the second one is in a hurry
            told()
        raise Interrupted(f"interrupted: {_kept(runs(), path)}", hint=to_resume(path)) from None
    except (DFlashError, SystemExit):
        # a signal ends it by SystemExit: a batch system's time is over, a terminal is gone
        if runs():
            _output.note(f"{_kept(runs(), path)}; {to_resume(path)} goes on")
        raise


def to_resume(path: Path) -> str:
    return without_password(going_on(["dflash", *sys.argv[1:]], path))


def _typed() -> str:
    return without_password(shlex.join(["dflash", *sys.argv[1:]]))


def _kept(runs: int, path: Path) -> str:
    return f"{runs} run{'s are' if runs > 1 else ' is'} in {path}"
