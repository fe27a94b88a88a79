"""How far a benchmark is: its answers on a bar, and a line a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from dflash_deploy.cli._answer_bar import AnswerBar
from dflash_deploy.measure.report import Run
from dflash_deploy.measure.sample import Answer
from dflash_deploy.measure.turns import Turn


class Watched:
    """Counts runs and answers over all servers."""

    def __init__(self, runs: int, requests: int) -> None:
        self.runs = runs
        self.run = 0
        self._bar = AnswerBar(requests)

    def drawn(self) -> AbstractContextManager[None]:
        return self._bar.drawn("warming up")

    def begin(self, turn: Turn) -> None:
        self.run += 1
        self._bar.now(f"{turn.arm} {turn.load} {turn.workload}")

    def answered(self, _answer: Answer) -> None:
        self._bar.one_more()

    def end(self, turn: Turn, run: Run) -> None:
        failed = f", {run.failed} failed" if run.failed else ""
        self._bar.line(
            f"{self.run}/{self.runs} {turn.arm} {turn.load} {turn.workload}:"
            f" {run.tokens_per_second:.1f} tok/s{failed}",
            last=self.run == self.runs,
        )

    def uneven(self, arm: str, width: int, seconds: Sequence[float]) -> None:
        self._bar.line(
            f"{arm} at {width} in flight: {len(seconds)} rounds of warming up took"
            f" {min(seconds):.1f} to {max(seconds):.1f} s: its runs may stand still as well,"
            " while kernels are compiled",
            last=True,
        )
