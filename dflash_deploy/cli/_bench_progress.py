"""How far a benchmark is: a bar with the time left on a terminal, a line a run otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dflash_deploy.cli import _output
from dflash_deploy.measure.report import Run
from dflash_deploy.measure.sample import Answer
from dflash_deploy.measure.turns import Turn

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Watched:
    """Counts runs and answers over all servers; the clock stands still while one starts."""

    def __init__(self, runs: int, requests: int) -> None:
        self.runs, self.requests = runs, requests
        self.run = self.answers = 0
        self._spent, self._began = 0.0, time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """While servers are measured; nothing else draws on the terminal meanwhile."""
        self._began = time.monotonic()
        try:
            if _output.on_terminal() and os.environ.get("TERM") != "dumb":
                with self._bars():
                    yield
            else:
                yield
        finally:
            self._spent += time.monotonic() - self._began
            self._bar = None

    @contextmanager
    def _bars(self) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True, highlight=False, markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TextColumn("{task.fields[left]}"))  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            self._task = bar.add_task("warming up", total=self.requests, completed=self.answers,
                                      left="")  # fmt: skip
            self._bar = bar
            yield

    def begin(self, turn: Turn) -> None:
        self.run += 1
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=f"{turn.arm} {turn.load} {turn.workload}")

    def answered(self, _answer: Answer) -> None:
        self.answers += 1
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self.answers, left=self.left)

    def end(self, turn: Turn, run: Run) -> None:
        failed = f", {run.failed} failed" if run.failed else ""
        line = (
            f"{self.run}/{self.runs} {turn.arm} {turn.load} {turn.workload}:"
            f" {run.tokens_per_second:.1f} tok/s{failed}"
        )
        if self._bar:
            self._bar.console.print(line)
        else:
            _output.note(f"{line}; {self.left}" if self.run < self.runs else line)

    @property
    def left(self) -> str:
        """By the answers so far: slow arms come first, so that it rather says too much."""
        spent = self._spent + time.monotonic() - self._began
        seconds = round(spent * (self.requests - self.answers) / max(self.answers, 1))
        return f"{seconds // 60}:{seconds % 60:02d} left"
