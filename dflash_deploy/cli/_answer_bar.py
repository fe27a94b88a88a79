"""How many of the answers are in: a bar with the time left on a terminal, lines otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class AnswerBar:
    """Counts answers over all servers; the clock stands still while one starts."""

    def __init__(self, requests: int, rounds: float | None = None) -> None:
        """`rounds`: the time they all take, in that of one answer; as many as answers if unsaid."""
        self.requests = requests
        self.answers = 0
        self._rounds, self._done = rounds or requests, 0.0
        self._spent, self._began = 0.0, time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    @contextmanager
    def drawn(self, begun: str) -> Iterator[None]:
        """While servers answer; nothing else draws on the terminal meanwhile."""
        self._began = time.monotonic()
        try:
            if _output.redraws():
                with self._bars(begun):
                    yield
            else:
                yield
        finally:
            self._spent += time.monotonic() - self._began
            self._bar = None

    @contextmanager
    def _bars(self, begun: str) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True, highlight=False, markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TextColumn("{task.fields[left]}"))  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            self._task = bar.add_task(begun, total=self.requests, completed=self.answers, left="")
            self._bar = bar
            yield

    def now(self, what: str) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what)

    def one_more(self, rounds: float = 1.0) -> None:
        self.answers += 1
        self._done += rounds
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self.answers, left=self.left)

    def line(self, said: str, *, last: bool = False) -> None:
        """Above the bar; without one the time left stands behind it."""
        if self._bar:
            self._bar.console.print(said)
        else:
            _output.note(said if last else f"{said}; {self.left}")

    @property
    def left(self) -> str:
        """By the rounds so far: slow arms come first, so that it rather says too much."""
        spent = self._spent + time.monotonic() - self._began
        seconds = round(spent * max(0.0, self._rounds - self._done) / (self._done or 1))
        return f"{seconds // 60}:{seconds % 60:02d} left"
