"""Arms under loads: servers that run side by side go through their turns, each run kept at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from dflash_deploy.errors import LaunchError, UsageError
from dflash_deploy.measure.asks import Style, Task, asks
from dflash_deploy.measure.counting import counted_since, reading
from dflash_deploy.measure.load import LATE, PATIENCE, Ask, OnAnswer, closed_loop, open_loop
from dflash_deploy.measure.open_files import most_open
from dflash_deploy.measure.pace import COMPILING, enough, even
from dflash_deploy.measure.report import Arm, Load, Report, Run
from dflash_deploy.measure.results import with_run
from dflash_deploy.measure.same_server import SameServer
from dflash_deploy.measure.sample import Answer, Sample, merged, run_of
from dflash_deploy.measure.stream import NO_USAGE
from dflash_deploy.measure.team import Alone, Team
from dflash_deploy.measure.turns import Turn, arrivals, turns
from dflash_deploy.plan import Endpoint

FEWEST = 16
"""Requests of a run, unless a number was asked for; and at least two for each in flight."""
WARM_TOKENS = 32
TELLING = {
    NO_USAGE: "the engine's own address: something in between drops `stream_options`",
    LATE: "--request-timeout allows more",
    "status 401": "export DFLASH_API_KEY=...",
    "status 403": "export DFLASH_API_KEY=...",
    "status 429": "--concurrency with fewer, or a server that nobody else asks",
    "sends on to": "--url with the address that it sends on to",
}
"""What a reason that no request is answered points at."""


@dataclass(frozen=True)
class Side:
    """An arm whose server runs."""

    arm: Arm
    endpoint: Endpoint
    extra: dict[str, Any] = field(default_factory=dict)
    """Said with each of its requests."""
    check: Callable[[], None] = lambda: None
    """Called when requests failed: raises what became of the server, if it is gone."""


def enough_for(load: Load) -> int:
    """Requests of a run where nobody says how many."""
    return max(FEWEST, 2 * (load.concurrency or 0))


@dataclass(frozen=True, kw_only=True)
class Course:
    """What every arm goes through."""

    tasks: tuple[Task, ...]
    loads: tuple[Load, ...]
    repeats: int
    requests: int | None
    """Of a run; None: enough for its load."""
    style: Style
    patience: float = PATIENCE
    """Seconds a request may take."""
    rank: int = 0
    ranks: int = 1
    """Of so many processes this one sends its share of the requests."""

    def turns(self, arms: Sequence[Arm], report: Report) -> list[Turn]:
        """What is still to be measured of these."""
        names = [task.workload.name for task in self.tasks]
        return list(turns(arms, self.loads, names, self.repeats, report.cells))

    @property
    def most_open(self) -> int:
        """Connections that this process may have open at once."""
        return most_open(self.loads, map(self.requests_at, self.loads))

    def requests_at(self, load: Load) -> int:
        """That this process sends."""
        every = self.requests or enough_for(load)
        return len(range(self.rank, every, self.ranks))


def check_enough(course: Course) -> None:
    """A run of fewer requests never has that many in flight. Raises UsageError."""
    for load in course.loads:
        found = course.requests_at(load)
        if load.concurrency and found < load.concurrency:
            raise UsageError(
                f"{found} requests a run never have {load.concurrency} in flight",
                hint=f"--num-prompts {enough_for(load) * course.ranks}, or a lower --concurrency",
            )


class Telling(Protocol):
    """Who watches: told of every run and every answer."""

    def begin(self, turn: Turn, /) -> None: ...

    def answered(self, answer: Answer, /) -> None: ...

    def end(self, turn: Turn, run: Run, /) -> None: ...

    def uneven(self, arm: str, width: int, seconds: Sequence[float], /) -> None:
        """A server's pace, by rounds of as many requests, did not settle before its runs."""


def measure(
    report: Report,
    sides: Sequence[Side],
    course: Course,
    *,
    keep: Callable[[Report], None],
    telling: Telling,
    team: Team | None = None,
    warm: bool = True,
) -> Report:
    """Go through what is left for servers that run side by side; `keep` gets each new report.

    warm: send what does not count first. Not to servers that have just been measured.
    Raises LaunchError when one is gone, or another answers in its place: the run that it went in is
    not kept, all before it are.
    """
    team = team or Alone()
    by_name = {side.arm.name: side for side in sides}
    # what this command started cannot be another one without an end of its process
    others = {side.arm.name: SameServer(side.endpoint) for side in sides if side.arm.url}
    for side in sides if warm else ():
        warm_up(side, course, telling)
    for other in others.values():
        other.look()
    for turn in course.turns([side.arm for side in sides], report):
        side = by_name[turn.arm]
        telling.begin(turn)
        team.gather(Sample(answers=(), seconds=0))  # all begin together
        sample = run_turn(side, course, turn, telling.answered)
        if turn.arm in others:
            others[turn.arm].look()
        run = run_of(merged(team.gather(sample)))
        report = with_run(report, turn, run)
        keep(report)
        telling.end(turn, run)
    return report


def warm_up(side: Side, course: Course, telling: Telling) -> None:
    """Requests whose times do not count: kernels are compiled, caches of code filled, graphs met.

    At each load that follows, the least first, in rounds until their pace is even: an engine
    compiles for the batches that it meets. Raises LaunchError if none of a first round is answered.
    """
    task = course.tasks[0]
    few = min(task.workload.max_tokens, WARM_TOKENS)
    short = msgspec.structs.replace(
        task, workload=msgspec.structs.replace(task.workload, max_tokens=few)
    )
    for width in sorted({load.concurrency or FEWEST for load in course.loads} or {1}):
        rounds = _rounds(side, course, short, width)
        if len(rounds) > 1 and not even(rounds):
            telling.uneven(side.arm.name, width, rounds)


def _rounds(side: Side, course: Course, short: Task, width: int) -> list[float]:
    """Seconds of each, until enough; none where requests fail, which the runs will count."""
    rounds: list[float] = []
    while not rounds or (side.endpoint.engine in COMPILING and not enough(rounds)):
        answers, seconds = _round(side, course, short, width, len(rounds))
        if not rounds and all(answer.error for answer in answers):
            raise _mute(side, str(answers[0].error) if answers else "none was sent")
        if any(answer.error for answer in answers):
            return []
        rounds.append(seconds)
    return rounds


def _round(
    side: Side, course: Course, short: Task, width: int, number: int
) -> tuple[list[Answer], float]:
    """One request for each in flight. Raises what became of a server that is gone."""
    label = f"warm-up-{width}-{number}"
    sent = asks(short, course.style, side.endpoint, label, width, side.extra)
    answers, seconds = closed_loop(side.endpoint, sent, width, patience=course.patience)
    if any(answer.error for answer in answers):
        side.check()
    return answers, seconds


def _mute(side: Side, why: str) -> LaunchError:
    """A server that answers none of its first requests, with what that points at."""
    address = side.endpoint.address
    hint = next((hint for sign, hint in TELLING.items() if sign in why), None)
    if side.arm.url:
        hint = hint or f"curl {address}/v1/models"
    return LaunchError(f"{side.arm.name} at {address} answers no request: {why}", hint=hint)


def run_turn(side: Side, course: Course, turn: Turn, on_answer: OnAnswer) -> Sample:
    """One run, with the server's counters before and after it."""
    task = next(task for task in course.tasks if task.workload.name == turn.workload)
    count = course.requests_at(turn.load)
    sent = asks(task, course.style, side.endpoint, turn.label, count, side.extra)
    before = reading(side.endpoint)
    answers, seconds = _under(turn.load, side.endpoint, sent, course, turn.label, on_answer)
    if any(answer.error for answer in answers):
        side.check()
    return Sample(
        answers=tuple(answers), seconds=seconds, counted=counted_since(side.endpoint, before)
    )


def _under(
    load: Load,
    endpoint: Endpoint,
    sent: list[Ask],
    course: Course,
    label: str,
    on_answer: OnAnswer,
) -> tuple[list[Answer], float]:
    if load.rate is None:
        return closed_loop(
            endpoint, sent, load.concurrency or 1, patience=course.patience, on_answer=on_answer
        )
    times = arrivals(load.rate, len(sent), f"{course.style.seed} {label}")
    return open_loop(endpoint, sent, times, patience=course.patience, on_answer=on_answer)
