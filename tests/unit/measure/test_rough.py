"""Servers that misbehave, as a measurement meets them: what is counted, and what is said."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.errors import DFlashError, LaunchError, UsageError
from dflash_deploy.measure.acceptance import check
from dflash_deploy.measure.bench import Side
from dflash_deploy.measure.connection import base_of, served_models
from dflash_deploy.measure.counting import counted_since, reading
from dflash_deploy.measure.metrics import counters, read
from dflash_deploy.measure.sample import Counted
from dflash_deploy.plan import Endpoint
from tests.fakes.rough import MODEL, rough
from tests.unit.measure.test_bench import DFLASH, REPORT, course, go


def endpoint(url: str) -> Endpoint:
    return Endpoint(url, MODEL, "vllm", "0.33.0")


@pytest.mark.parametrize(
    "fault",
    ["no metrics", "empty metrics", "metrics 401", "metrics 500", "metrics html",
     "metrics garbage", "metrics nan", "metrics vanish", "counters fall", "counters begin again"],
)  # fmt: skip
def test_counters_that_tell_nothing_are_no_figures(fault: str) -> None:
    with rough(fault) as url:
        before = reading(endpoint(url))
        assert counted_since(endpoint(url), before) == Counted()


def test_a_total_since_the_start_is_not_what_was_counted_over_a_run() -> None:
    with rough() as url:
        assert counted_since(endpoint(url), None) == Counted()


@pytest.mark.parametrize("place", ["first", "-1", "999999999", "٣"])
def test_a_place_that_no_block_has_is_left_out(place: str) -> None:
    with rough("metrics position", place=place) as url:
        found = read(endpoint(url))
    assert found is not None
    counted = counters(found)
    assert counted is not None
    assert counted.per_position == ()


def test_ranks_of_one_server_are_counted_together() -> None:
    with rough() as url:
        before = reading(endpoint(url))
        kept, error = go(REPORT, [Side(DFLASH, endpoint(url))], course(repeats=1))
        counted = counted_since(endpoint(url), before)
    assert error is None
    assert counted.drafts is not None
    assert (counted.drafts % 4, counted.accepted) == (0, 2 * counted.drafts)
    assert kept[-1].cells[0].runs[0].speculation.length == 3


def test_the_acceptance_check_takes_no_counter_that_fell_for_an_inactive_draft() -> None:
    with rough("counters fall") as url:
        found = check(endpoint(url), prompts=("Hello",))
    assert (found.length, found.drafts) == (None, None)
    assert "fell" in found.method


@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        ("429", "status 429: slow down: it asks to wait 7 s", "--concurrency with fewer"),
        ("post redirect", "it sends on to /elsewhere", "--url with the address"),
        ("post html", "what came is no streamed answer", "curl "),
        ("no tokens", "an answer without a token", "curl "),
        ("odd usage", "no part of an answer", "curl "),
        ("negative usage", "no part of an answer", "curl "),
        ("vast usage", "no part of an answer", "curl "),
        ("garbage", "not JSON: {{{not json", "curl "),
        ("odd events", "no part of an answer: null", "curl "),
        ("no usage", "sent no usage", "the engine's own address"),
        ("breaks off", "the connection failed", "curl "),
        ("resets", "the connection failed", "curl "),
        ("no end", "no whole answer within", "--request-timeout"),
        ("endless", "no whole answer within", "--request-timeout"),
        ("never answers", "no whole answer within", "--request-timeout"),
    ],
)
def test_a_server_that_gives_no_answer_is_told_by_how(fault: str, said: str, hint: str) -> None:
    arm = msgspec.structs.replace(DFLASH, url="http://x")
    with rough(fault) as url:
        _, error = go(REPORT, [Side(arm, endpoint(url))], course(patience=0.5))
    assert isinstance(error, LaunchError)
    assert said in error.message
    assert error.hint is not None
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        ("redirect", "it sends on to /there/v1/models", "the address that it sends on to"),
        ("401", "wants an API key", "export "),
        ("404 models", "no OpenAI-compatible server", "dflash serve"),
        ("500 models", "the server failed (500)", "what the server"),
        ("models are a list", "no OpenAI-compatible server", "dflash serve"),
        ("models are text", "no OpenAI-compatible server", "dflash serve"),
        ("html", "no OpenAI-compatible server", "dflash serve"),
    ],
)
def test_a_server_that_names_no_model_is_told_by_how(fault: str, said: str, hint: str) -> None:
    with rough(fault) as url, pytest.raises(DFlashError) as raised:
        served_models(endpoint(url))
    assert said in raised.value.message
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(hint)


@pytest.mark.parametrize(
    "typed",
    ["http://h:1/p", "http://h:1/p/", "http://h:1/p/v1", "http://h:1/p/v1/", " http://h:1/p ",
     "http://h:1/p/v1/models", "http://h:1/p/v1/chat/completions"],
)  # fmt: skip
def test_a_part_of_the_api_is_no_part_of_the_address(typed: str) -> None:
    assert base_of(typed) == "http://h:1/p"


def test_a_name_that_begins_alike_is_a_part_of_the_address() -> None:
    assert base_of("http://h:1/v10/v1") == "http://h:1/v10"


@pytest.mark.parametrize("typed", ["http://h:1?x=1", "http://h:1/#there"])
def test_what_stands_behind_a_path_is_no_address(typed: str) -> None:
    with pytest.raises(UsageError, match="is no address of a server: it goes on behind"):
        served_models(endpoint(typed))


def test_ipv6_is_an_address_like_any() -> None:
    with rough(host="::1") as url:
        assert served_models(endpoint(url)) == [MODEL]
