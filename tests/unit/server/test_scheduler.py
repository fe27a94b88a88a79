import logging
import threading
import time

import pytest

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.scheduler import Scheduler
from dflash_deploy.server.sequence import Job, RequestState
from dflash_deploy.server.worker import Worker
from dflash_deploy.speculative.types import Sampling
from tests.unit.server.fakes import ByteText, ScriptedDecoder


class Client:
    """Collects what the decode thread posts."""

    def __init__(self, name, limit=8, speculate=True):
        self.news = []
        self.ended = threading.Event()
        job = Job(name, tuple(name.encode()), Sampling(limit), (), speculate)
        self.state = RequestState(job, ByteText().decode, self.post)

    def post(self, news):
        self.news.append(news)
        if isinstance(news, ApiError) or news.report is not None:
            self.ended.set()

    @property
    def text(self):
        return "".join(chunk.text for chunk in self.news)


@pytest.fixture
def start():
    made = []

    def start(decoder, max_active=4, max_waiting=32):
        metrics = Metrics("m", decoder.block_size)
        scheduler = Scheduler(decoder, metrics, max_active=max_active, max_waiting=max_waiting)
        scheduler.start(Worker())
        made.append(scheduler)
        return scheduler, metrics

    yield start
    for scheduler in made:
        scheduler.stop()
        assert scheduler.join(5)


def same(length):
    return lambda prompt, sampling: (prompt * length).encode()[:length]


class Gate:
    """A script that stays in prefill until it is opened, and says so."""

    def __init__(self, length=40):
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.length = length

    def __call__(self, prompt, sampling):
        self.entered.set()
        assert self.opened.wait(5)
        return prompt.encode() * self.length


def test_running_requests_take_turns_cycle_by_cycle(start):
    gate = Gate(9)
    decoder = ScriptedDecoder(gate, block_size=4)
    scheduler, _ = start(decoder, max_active=3)
    clients = [Client(name, 9) for name in "abc"]
    scheduler.submit(clients[0].state)
    assert gate.entered.wait(5)
    for client in clients[1:]:
        scheduler.submit(client.state)
    gate.opened.set()
    for client in clients:
        assert client.ended.wait(5)
    assert decoder.cycles == list("aabcabcbc")  # each: prefill and two blocks
    assert [client.text for client in clients] == ["a" * 9, "b" * 9, "c" * 9]
    assert len(decoder.threads) == 1


def test_the_queue_is_first_come_first_served_and_has_a_limit(start):
    gate = Gate(1)
    decoder = ScriptedDecoder(gate)
    scheduler, metrics = start(decoder, max_active=1, max_waiting=2)
    first, second, third, fourth = (Client(name, 1) for name in "abcd")
    scheduler.submit(first.state)
    assert gate.entered.wait(5)
    scheduler.submit(second.state)
    scheduler.submit(third.state)
    with pytest.raises(ApiError) as full:
        scheduler.submit(fourth.state)
    assert (full.value.status, full.value.headers) == (429, {"Retry-After": "1"})
    assert b'num_requests_waiting{engine="0",model_name="m"} 2.0' in metrics.render()
    gate.opened.set()
    assert third.ended.wait(5)
    assert decoder.cycles == ["a", "b", "c"]


def test_an_abandoned_request_stops_within_a_cycle(start):
    decoder = ScriptedDecoder(same(1000), delay=0.005)
    scheduler, metrics = start(decoder)
    client = Client("a", 1000)
    scheduler.submit(client.state)
    while len(decoder.cycles) < 3:
        time.sleep(0.001)
    scheduler.abandon(client.state)
    seen = len(decoder.cycles)
    time.sleep(0.1)
    assert len(decoder.cycles) <= seen + 1
    assert decoder.closed == ["a"]
    assert b'finished_reason="abort",model_name="m"} 1.0' in metrics.render()


def test_an_abandoned_request_gives_its_place_in_the_queue_back(start):
    gate = Gate(1)
    scheduler, _ = start(ScriptedDecoder(gate), max_active=1, max_waiting=1)
    first, second, third = (Client(name, 1) for name in "abc")
    scheduler.submit(first.state)
    assert gate.entered.wait(5)
    scheduler.submit(second.state)
    scheduler.abandon(second.state)
    scheduler.submit(third.state)
    gate.opened.set()
    assert third.ended.wait(5)
    assert not second.news


def test_a_failing_request_ends_alone(start, caplog):
    def script(prompt, sampling):
        if prompt == "b":
            raise RuntimeError("out of memory")
        return prompt.encode() * 20

    scheduler, metrics = start(ScriptedDecoder(script, delay=0.002))
    clients = [Client(name, 20) for name in "abc"]
    with caplog.at_level(logging.ERROR):
        for client in clients:
            scheduler.submit(client.state)
        for client in clients:
            assert client.ended.wait(5)
    assert clients[1].news[-1].status == 500
    assert "out of memory" not in clients[1].news[-1].message
    assert "out of memory" in caplog.text
    assert [clients[0].text, clients[2].text] == ["a" * 20, "c" * 20]
    assert scheduler.healthy
    assert b'finished_reason="error",model_name="m"} 1.0' in metrics.render()


def test_a_dead_client_does_not_stop_the_others(start):
    scheduler, _ = start(ScriptedDecoder(same(20)))
    dead, alive = Client("a", 20), Client("b", 20)

    def closed(_):
        raise RuntimeError("Event loop is closed")

    dead.state.post = closed
    scheduler.submit(dead.state)
    scheduler.submit(alive.state)
    assert alive.ended.wait(5)


def test_stopping_ends_running_and_waiting_requests_and_refuses_new_ones(start):
    scheduler, _ = start(ScriptedDecoder(same(10_000), delay=0.005), max_active=1)
    running, waiting = Client("a", 10_000), Client("b", 10)
    scheduler.submit(running.state)
    scheduler.submit(waiting.state)
    scheduler.stop()
    assert scheduler.join(1)
    assert [running.news[-1].status, waiting.news[-1].status] == [503, 503]
    assert not scheduler.healthy
    with pytest.raises(ApiError) as refused:
        scheduler.submit(Client("c").state)
    assert refused.value.status == 503


def test_the_last_news_comes_after_the_counters(start):
    scheduler, metrics = start(ScriptedDecoder(same(9), block_size=4))
    client = Client("a", 9)
    seen = []
    collect = client.state.post

    def post(news):
        if news.report is not None:
            seen.append(metrics.render().decode())
        collect(news)

    client.state.post = post
    scheduler.submit(client.state)
    assert client.ended.wait(5)
    assert 'vllm:generation_tokens_total{engine="0",model_name="m"} 9.0' in seen[0]
    assert 'vllm:num_requests_running{engine="0",model_name="m"} 0.0' in seen[0]


def test_a_bug_in_the_scheduler_itself_leaves_nobody_waiting(start, caplog):
    class Broken(ScriptedDecoder):
        def generate(self, *args, **kwargs):
            raise SystemExit

    scheduler, _ = start(Broken())
    client = Client("a")
    scheduler.submit(client.state)
    assert client.ended.wait(5)
    assert client.news[-1].status == 503
    assert scheduler.join(5)
    assert not scheduler.healthy
