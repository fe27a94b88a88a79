"""How far a pull is: a bar on a terminal, a plain line now and then in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from dflash_deploy.hub.progress import Progress
    from dflash_deploy.hub.pulling import Pull, Watch

EVERY = 10.0
"""Seconds between two lines in a pipe."""


@contextmanager
def drawn(pull: Pull) -> Iterator[tuple[Pull, Watch]]:
    """The pull with its waits shown where they do not tear the bar, and what draws the bar."""
    if not _output.redraws():
        yield pull, Lines().watch
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskProgressColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        BarColumn(), TaskProgressColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None, start=False)

        def watch(progress: Progress) -> None:
            if not bars.tasks[0].started:
                # what was here before is no speed
                bars.update(task, completed=progress.done, total=progress.total)
                bars.start_task(task)
            bars.update(task, completed=progress.done)

        yield replace(pull, on_wait=bars.console.print), watch


class Lines:
    """One line every few seconds, and one at the end, if there was anything to do."""

    def __init__(self) -> None:
        self.last = self.begun = time.monotonic()
        self.said = -1

    def watch(self, progress: Progress) -> None:
        now = time.monotonic()
        ended = progress.done == progress.total and progress.received
        if progress.done == self.said or (now - self.last < EVERY and not ended):
            return
        from dflash_deploy.hub.disk import size

        self.last, self.said = now, progress.done
        share = 100 * progress.done // max(progress.total, 1)
        speed = size(int(progress.received / max(now - self.begun, 0.001)))
        _output.note(f"{size(progress.done)} of {size(progress.total)} ({share}%), {speed}/s")
