from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.launch import seen, state
from dflash_deploy.launch.containers import BoxedServer
from dflash_deploy.launch.detached import record_of
from dflash_deploy.launch.seen import Watch, glance
from dflash_deploy.measure.live import Numbers
from dflash_deploy.registry import load
from tests.fakes.exposition import family
from tests.fakes.plans import plan

ENGINES = load(user=False).engines
SPEC = "vllm:spec_decode_num_"


class Server:
    """What stands in for one: what it counted, whether it answers, and how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drafts, self.accepted, self.now, self.asked = 10, 20, 0.0, 0
        self.answers = True
        monkeypatch.setattr(seen, "read_metrics", self._metrics)
        monkeypatch.setattr(seen, "condition", self._condition)
        monkeypatch.setattr(seen.time, "monotonic", lambda: self.now)

    def count(self, seconds: float, drafts: int, accepted: int) -> None:
        self.now += seconds
        self.drafts += drafts
        self.accepted += accepted

    def _metrics(self, *_: object, **__: object) -> str:
        if not self.answers:
            raise LaunchError("nobody there")
        label = {"engine": "0"}
        drafts = family(f"{SPEC}drafts", "counter", (label, self.drafts))
        return drafts + family(f"{SPEC}accepted_tokens", "counter", (label, self.accepted))

    def _condition(self, *_: object) -> str:
        self.asked += 1
        return "ready" if self.answers else "not answering"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def record(port: int = 8000, **changes: object) -> state.Record:
    made = record_of(plan("vllm", port=port), f"qwen3-4b-{port}", log=None)
    return msgspec.structs.replace(made, **{"ready": True, "speculation": "fine", **changes})


def box() -> BoxedServer:
    return BoxedServer(
        name="dflash-qwen3-4b", model="Qwen/Qwen3-4B", draft="z-lab/Qwen3-4B-DFlash-b16",
        engine="vllm", version="0.33.0", port=8000, base_url="http://127.0.0.1:8000",
        health_path="/health", since="2026-11-28T10:00:00+00:00", restarts=0, container="abc",
        ended=None, unhealthy=False,
    )  # fmt: skip


def test_a_glance_is_of_all_since_the_start(server: Server) -> None:
    (one, gone) = glance(ENGINES, [record(), record(8001, ended="vLLM ended")])

    assert (one.state, one.numbers.acceptance_length) == ("ready", 3.0)
    assert gone.numbers == Numbers()


def test_a_watch_forgets_what_is_older_than_its_window(server: Server) -> None:
    watch, one = Watch(ENGINES), record()

    lengths = []
    for drafts, accepted in ((0, 0), (10, 10), (10, 30), (10, 50)):
        server.count(6, drafts, accepted)
        lengths.append(watch.look([one])[0].numbers.acceptance_length)

    assert lengths == [None, 2.0, 3.0, 5.0]  # 12 seconds at the end, not all 18


def test_a_healthy_server_is_asked_for_its_health_less_often(server: Server) -> None:
    watch, one = Watch(ENGINES), record()
    for _ in range(6):
        server.count(2, 1, 1)
        watch.look([one])

    assert server.asked == 1
    server.answers = False
    assert watch.look([one])[0].state == "not answering"


def test_servers_come_and_go(server: Server) -> None:
    watch, first, second = Watch(ENGINES), record(8000), record(8001)
    watch.look([first])
    server.count(1, 5, 5)

    both = watch.look([first, second])

    assert [each.numbers.acceptance_length for each in both] == [2.0, None]
    assert watch.look([]) == []


@pytest.mark.parametrize(
    ("accepted", "found", "words"),
    [
        (0, "fine", "ready, speculation collapsed"),
        (20, "collapsed", "ready"),  # the counters know better than an old check
        (5, "fine", "ready, speculation low"),
    ],
)
def test_a_draft_that_does_little_shows_in_the_state(
    server: Server, accepted: int, found: str, words: str
) -> None:
    server.accepted = accepted
    one = record(speculation=found)
    expected = msgspec.structs.replace(one.plan, expected_length=3.2)

    seen = glance(ENGINES, [msgspec.structs.replace(one, plan=expected)])[0]

    assert seen.state == words


@pytest.mark.parametrize(
    ("drafts", "accepted", "words"),
    [(9, 0, "unproven"), (10, 0, "collapsed"), (9, 20, "fine")],
)
def test_a_few_unlucky_cycles_say_nothing_against_a_draft(
    server: Server, drafts: int, accepted: int, words: str
) -> None:
    server.drafts, server.accepted = drafts, accepted

    assert glance(ENGINES, [box()])[0].speculation == words


@pytest.mark.parametrize(
    ("found", "words"),
    [("inactive", "ready, speculation inactive"), ("unchecked", "ready"), ("fine", "ready")],
)
def test_what_the_check_found_stands_where_nothing_is_counted(
    server: Server, found: str, words: str
) -> None:
    server.drafts = 0

    assert glance(ENGINES, [record(speculation=found)])[0].state == words


def test_a_server_that_answers_is_not_ready_before_its_check(server: Server) -> None:
    seen = glance(ENGINES, [record(ready=False, speculation=None)])[0]

    assert (seen.state, seen.speculation) == ("proving the draft", None)


def test_a_container_that_nobody_proved_says_so_until_its_counters_tell(server: Server) -> None:
    drafts, server.drafts = server.drafts, 0
    watch = Watch(ENGINES)
    assert glance(ENGINES, [box()])[0].state == "ready, speculation unproven"
    assert watch.look([box()])[0].speculation == "unproven"

    server.drafts = drafts
    assert glance(ENGINES, [box()])[0].state == "ready"
    watch.look([box()])
    server.count(20, 0, 0)  # nothing within the window, but since the start

    assert watch.look([box()])[0].state == "ready"
