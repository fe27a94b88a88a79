from __future__ import annotations

import json

import pytest

from dflash_deploy.measure.counting import Reading, counted_since, difference, reading
from dflash_deploy.measure.live import reading as exposed
from dflash_deploy.measure.load import Ask, closed_loop, open_loop
from dflash_deploy.measure.metrics import SpeculationCounters, names_of, total
from dflash_deploy.plan import Endpoint
from tests.fakes.plans import TARGET, free_port
from tests.unit.measure.conftest import Serve


def asks(count: int, *, tokens: int = 9, path: str = "/v1/chat/completions", **extra) -> list[Ask]:
    def body(number: int) -> bytes:
        said = {"messages": [{"role": "user", "content": f"Question {number}"}]}
        if "chat" not in path:
            said = {"prompt": [number, 2, 3]}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps(
            {"model": TARGET, "max_tokens": tokens, **said, **options, **extra}
        ).encode()

    return [Ask(path, body(number)) for number in range(count)]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_tokens_come_from_usage_not_from_chunks(serve: Serve, path: str) -> None:
    answers, seconds = closed_loop(serve("vllm"), asks(5, path=path), 2)
    assert [answer.output_tokens for answer in answers] == [9] * 5
    assert all(answer.error is None for answer in answers)
    assert all(a.sent <= a.first <= a.ended <= seconds for a in answers)


def test_no_more_are_in_flight_than_asked(serve: Serve) -> None:
    answers, _ = closed_loop(serve("vllm", CHUNK_DELAY=0.02), asks(6), 3)
    for answer in answers:
        together = [a for a in answers if a.sent < answer.ended and answer.sent < a.ended]
        assert sum(a.sent <= answer.sent < a.ended for a in answers) <= 3
        assert len(together) > 1


def test_an_open_loop_sends_when_it_is_due_and_counts_from_then(serve: Serve) -> None:
    times = [0.0, 0.01, 0.2]
    answers, _ = open_loop(serve("vllm", ANSWER_DELAY=0.1), asks(3), times)
    assert sorted(answer.sent for answer in answers) == times
    assert all(answer.first - answer.sent >= 0.1 for answer in answers)


def test_a_slow_server_is_a_failure_with_its_reason(serve: Serve) -> None:
    answers, _ = closed_loop(serve("vllm", ANSWER_DELAY=5), asks(2), 2, patience=0.2)
    assert [answer.error for answer in answers] == ["no whole answer within 0.2 s"] * 2


def test_a_server_without_usage_fails_every_request(serve: Serve) -> None:
    answers, _ = closed_loop(serve("vllm", NO_USAGE=1), asks(1), 1)
    assert answers[0].error == "the server sent no usage: its tokens cannot be counted"


def test_a_status_keeps_the_servers_words(serve: Serve) -> None:
    answers, _ = closed_loop(serve("vllm", STATUS=503), asks(1), 1)
    assert answers[0].error == "status 503: the fake was told to answer so"


def test_a_server_that_dies_fails_what_was_in_flight_and_all_after_it(serve: Serve) -> None:
    answers, _ = closed_loop(serve("vllm", CRASH_ON=3, CHUNK_DELAY=0.01), asks(8), 2)
    assert len(answers) == 8
    assert sum(answer.error is None for answer in answers) <= 2
    assert all(a.error is None or "the connection failed" in a.error for a in answers)


def test_nobody_there() -> None:
    nobody = Endpoint(f"http://127.0.0.1:{free_port()}", TARGET, "vllm")
    answers, _ = closed_loop(nobody, asks(1), 1)
    assert "the connection failed" in answers[0].error


def test_counters_are_differences_over_all_ranks(serve: Serve) -> None:
    endpoint = serve("vllm", ACCEPTANCE=3)
    closed_loop(endpoint, asks(4), 2)
    before = reading(endpoint)
    closed_loop(endpoint, asks(4, tokens=30), 2)
    counted = counted_since(endpoint, before)
    assert (counted.drafts, counted.accepted) == (40, 80)
    assert counted.per_position[:3] == (40, 40, 0)
    assert counted.cached_tokens == 28  # the same four questions


def test_a_server_without_metrics_says_nothing(serve: Serve) -> None:
    endpoint = serve("vllm", METRICS=0)
    assert counted_since(endpoint, reading(endpoint)).drafts is None


def test_sglang_reports_on_each_request_or_has_a_gauge(serve: Serve) -> None:
    newer = serve("sglang", "0.5.23", ACCEPTANCE=3)
    answers, _ = closed_loop(newer, asks(2, return_spec_tokens_details=True), 1)
    assert [answer.cycles.drafts for answer in answers] == [3, 3]
    older = serve("sglang", "0.5.17", ACCEPTANCE=4)
    before = reading(older)
    answers, _ = closed_loop(older, asks(2, return_spec_tokens_details=True), 1)
    assert answers[0].cycles is None
    assert counted_since(older, before).gauge == 4


def test_a_server_that_began_to_count_later_counts_from_nothing() -> None:
    after = Reading(SpeculationCounters(4, 8, 2), cached_tokens=5)
    assert difference(Reading(), after).drafts == 4
    assert difference(Reading(), after).cached_tokens is None


def test_cached_tokens_are_summed_over_ranks() -> None:
    name = "vllm:prefix_cache_hits_total"
    text = f'# TYPE {name} counter\n{name}{{engine="0"}} 3.0\n{name}{{engine="1"}} 4.0\n'
    names = names_of("vllm", None)
    assert total(exposed(text, names, 0), "cached_tokens") == 7
    assert total(exposed("# TYPE up gauge\nup 1\n", names, 0), "cached_tokens") is None
