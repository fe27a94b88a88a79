from __future__ import annotations

import pytest

from dflash_deploy.cli import _answer_bar
from dflash_deploy.cli._bench_progress import Watched
from dflash_deploy.measure.bench import enough_for
from dflash_deploy.measure.report import Load, Run
from dflash_deploy.measure.sample import Answer
from dflash_deploy.measure.turns import Turn


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_the_time_left_counts_rounds_and_not_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 answers side by side take about as long as one alone."""
    clock = Clock()
    monkeypatch.setattr(_answer_bar, "time", clock)
    turns = [Turn("plain", Load(concurrency=many), "mixed", 0) for many in (1, 64)]
    watched = Watched(turns, enough_for)
    run = Run(seconds=16.0, requests=16, failed=0, prompt_tokens=1, output_tokens=160)
    with watched.drawn():
        watched.begin(turns[0])
        for _ in range(enough_for(turns[0].load)):
            clock.now += 1.0
            watched.answered(Answer(sent=0.0, ended=clock.now))
        watched.end(turns[0], run)

    assert enough_for(turns[1].load) == 128
    assert "1/2 plain c=1 mixed: 10.0 tok/s; 0:02 left" in capsys.readouterr().err
