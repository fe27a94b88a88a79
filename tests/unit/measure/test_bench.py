from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure import bench
from dflash_deploy.measure.asks import Style, Task
from dflash_deploy.measure.bench import Course, Side, measure
from dflash_deploy.measure.pace import ROUNDS
from dflash_deploy.measure.prompts import Prompt
from dflash_deploy.measure.report import Arm, Load
from dflash_deploy.measure.sample import Answer
from dflash_deploy.plan import Endpoint
from tests.unit.measure.conftest import Serve
from tests.unit.measure.test_results import REPORT, W

PLAIN = Arm(name="plain", method="plain")
DFLASH = Arm(name="dflash-16", method="dflash", block_size=16)
TASK = Task(W, tuple(Prompt(f"Question {number}?", "math") for number in range(3)))


def course(**changes) -> Course:
    known = {"tasks": (TASK,), "loads": (Load(concurrency=1), Load(concurrency=4)), "repeats": 2}
    return Course(**(known | {"requests": 4, "style": Style()} | changes))


class Watching:
    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, turn):
        self.said.append(f"{turn.arm} {turn.load}")

    def answered(self, answer):
        self.said.append(".")

    def end(self, turn, run):
        self.said.append(f"end {run.requests}")

    def uneven(self, arm, width, seconds):
        self.said.append(f"{arm} at {width}: {len(seconds)} rounds")


def go(report, sides, course, watching=None):
    kept = []
    try:
        measure(report, sides, course, keep=kept.append, telling=watching or Watching())
    except LaunchError as error:
        return kept, error
    return kept, None


def test_two_servers_side_by_side_go_through_every_cell(serve: Serve) -> None:
    plain = Side(PLAIN, serve("vllm", speculate=False, CHUNK_DELAY=0.001))
    fast = Side(DFLASH, serve("vllm", ACCEPTANCE=4, CHUNK_DELAY=0.001))
    watching = Watching()
    kept, _ = go(REPORT, [plain, fast], course(), watching)
    cells = {(cell.arm, str(cell.load)): cell for cell in kept[-1].cells}
    assert len(kept) == 8
    assert all(len(cell.runs) == 2 for cell in cells.values())
    run = cells["dflash-16", "c=4"].runs[1]
    assert run.speculation.length == pytest.approx(4)
    assert run.output_tokens == 4 * 64
    assert run.cached_tokens == 0  # no prompt was sent twice to a server
    assert cells["plain", "c=4"].runs[0].speculation is None
    assert watching.said[:6] == ["plain c=1", ".", ".", ".", ".", "end 4"]


def test_what_is_there_is_not_measured_again(serve: Serve) -> None:
    side = Side(DFLASH, serve("vllm"))
    kept, _ = go(REPORT, [side], course(repeats=1))
    again, _ = go(kept[-1], [side], course(repeats=2))
    assert len(again) == 2
    assert [len(cell.runs) for cell in again[-1].cells] == [2, 2]


class Rounds:
    """In place of the load generator: rounds that take as long as they are told to."""

    def __init__(self, seconds: Callable[[int, int], float]) -> None:
        self.seconds, self.sent = seconds, []

    def __call__(self, endpoint, asks, width, **options):  # type: ignore[no-untyped-def]
        self.sent.append((len(asks), width, asks[0].body))
        number = sum(had == width for _, had, _ in self.sent)
        return [Answer(sent=0, first=0.1, ended=1)] * len(asks), self.seconds(width, number)

    @property
    def widths(self) -> dict[int, int]:
        return dict(Counter(width for _, width, _ in self.sent))


LOADS = (Load(concurrency=4), Load(concurrency=1), Load(rate=50.0))


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int, int], float]], Rounds]:
    def made(seconds: Callable[[int, int], float]) -> Rounds:
        found = Rounds(seconds)
        monkeypatch.setattr(bench, "closed_loop", found)
        return found

    return made


def side(engine: str) -> Side:
    return Side(DFLASH, Endpoint(base_url="http://127.0.0.1:9", model="m", engine=engine))


def test_every_load_is_warmed_up_for(rounds) -> None:  # type: ignore[no-untyped-def]
    sent, watching = rounds(lambda width, number: 1.0), Watching()
    bench.warm_up(side("vllm"), course(loads=LOADS), watching)
    # requests that arrive by chance come as many at once as chance has it
    assert list(sent.widths.items()) == [(1, 3), (4, 3), (bench.FEWEST, 3)]
    assert all(count == width for count, width, _ in sent.sent)
    assert len({body for *_, body in sent.sent}) == len(sent.sent)  # no cache knows a round
    assert watching.said == []


def test_rounds_go_on_until_an_engine_no_longer_stands_still(rounds) -> None:  # type: ignore[no-untyped-def]
    compiled = rounds(lambda width, number: 3.0 if width == 4 and number in (1, 2, 5) else 0.5)
    bench.warm_up(side("vllm"), course(loads=LOADS), Watching())
    assert compiled.widths == {1: 3, 4: 8, bench.FEWEST: 3}


def test_a_pace_that_never_settles_is_told(rounds) -> None:  # type: ignore[no-untyped-def]
    rounds(lambda width, number: 2.0 if width == 4 and number % 2 else 0.5)
    watching = Watching()
    bench.warm_up(side("sglang"), course(loads=LOADS), watching)
    assert watching.said == [f"dflash-16 at 4: {ROUNDS} rounds"]


def test_an_engine_that_compiles_nothing_needs_one_round(rounds) -> None:  # type: ignore[no-untyped-def]
    sent, watching = rounds(lambda width, number: 1.0), Watching()
    bench.warm_up(side("transformers"), course(loads=LOADS), watching)
    assert (sent.widths, watching.said) == ({1: 1, 4: 1, bench.FEWEST: 1}, [])


def test_an_open_loop_is_a_load_like_another(serve: Serve) -> None:
    kept, _ = go(REPORT, [Side(DFLASH, serve("vllm"))], course(loads=(Load(rate=50.0),), repeats=1))
    assert kept[-1].cells[0].runs[0].requests == 4


def test_a_server_that_dies_ends_it_and_what_was_measured_is_kept(serve: Serve) -> None:
    def gone() -> None:
        raise LaunchError("it died")

    side = Side(DFLASH, serve("vllm", CRASH_ON=21), check=gone)  # 15 to warm up, 4 in the first run
    kept, error = go(REPORT, [side], course())
    assert "it died" in str(error)
    assert len(kept) == 1
    assert kept[0].cells[0].runs[0].failed == 0


def test_failures_of_a_server_that_lives_are_counted_and_it_goes_on(serve: Serve) -> None:
    side = Side(DFLASH, serve("vllm", FAIL_EVERY=3))
    kept, error = go(REPORT, [side], course(repeats=1))
    assert error is None
    run = kept[-1].cells[0].runs[0]
    assert (run.requests + run.failed, run.failed > 0) == (4, True)
    assert "the fake fails every 3. request" in run.errors[0]


def test_a_server_that_answers_nothing_is_told_before_anything_is_measured(serve: Serve) -> None:
    kept, error = go(REPORT, [Side(DFLASH, serve("vllm", NO_USAGE=1))], course())
    assert kept == []
    assert "the server sent no usage" in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("knobs", "url", "hint"),
    [
        ({"NO_USAGE": 1}, None, "the engine's own address: something in between drops"),
        ({"ANSWER_DELAY": 5}, None, "--request-timeout allows more"),
        ({"STATUS": 503}, "http://x", "curl http://127.0.0.1:"),
    ],
)
def test_a_server_that_answers_nothing_is_told_with_what_that_points_at(serve, knobs, url, hint):
    arm = msgspec.structs.replace(DFLASH, url=url)
    _, error = go(REPORT, [Side(arm, serve("vllm", **knobs))], course(patience=0.5))
    assert "answers no request" in error.message
    assert error.hint.startswith(hint)


def test_without_metrics_speed_is_measured_and_acceptance_is_not(serve: Serve) -> None:
    kept, _ = go(REPORT, [Side(DFLASH, serve("vllm", METRICS=0))], course(repeats=1))
    run = kept[-1].cells[0].runs[0]
    assert run.speculation is None
    assert run.cached_tokens is None
    assert run.tokens_per_second > 0


def test_requests_are_enough_for_the_load_unless_a_number_was_asked() -> None:
    assert course(requests=None).requests_at(Load(concurrency=32)) == 64
    assert course(requests=None).requests_at(Load(concurrency=1)) == 16
    assert course(requests=5).requests_at(Load(concurrency=32)) == 5
