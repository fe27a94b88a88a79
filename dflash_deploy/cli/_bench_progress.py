"""How far a benchmark is: its answers on a bar, and a line a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from dflash_deploy.cli._answer_bar import AnswerBar
from dflash_deploy.measure.report import Load, Run
from dflash_deploy.measure.sample import Answer
from dflash_deploy.measure.turns import Turn, width


class Watched:
    """Counts runs and answers over all servers."""

    def __init__(self, turns: Sequence[Turn], requests_at: Callable[[Load], int]) -> None:
        self.runs = len(turns)
        self.run = 0
        self._round = 1.0
        asked = [(requests_at(turn.load), width(turn.load)) for turn in turns]
        self._bar = AnswerBar(
            sum(requests for requests, _ in asked), sum(many / each for many, each in asked)
        )

    def drawn(self) -> AbstractContextManager[None]:
        return self._bar.drawn("warming up")

    def begin(self, turn: Turn) -> None:
        self.run += 1
        self._round = 1 / width(turn.load)
        self._bar.now(f"{turn.arm} {turn.load} {turn.workload}")

    def answered(self, _answer: Answer) -> None:
        self._bar.one_more(self._round)

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
