"""A server at a URL may be another one in the middle of a measurement."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure import same_server
from dflash_deploy.measure.asks import Style
from dflash_deploy.measure.bench import Side
from dflash_deploy.measure.prompts import Prompt
from dflash_deploy.measure.questions import Question
from dflash_deploy.measure.same_server import SameServer, Signs, other_server, signs
from dflash_deploy.measure.verify import Inquiry, ask_all
from dflash_deploy.plan import Endpoint
from tests.fakes.rough import MODEL, rough
from tests.unit.measure.test_bench import DFLASH, PLAIN, REPORT, course, go

BEGUN = 'x_total{engine="0"} 3\nx_created{engine="0"} 1.7e+09\nprocess_start_time_seconds 1.6e+09\n'


def endpoint(url: str) -> Endpoint:
    return Endpoint(url, MODEL, "vllm", "0.33.0")


def side(url: str, arm=DFLASH) -> Side:
    return Side(msgspec.structs.replace(arm, url=url), endpoint(url))


def test_counters_that_fell_or_a_later_start_are_signs_of_another():
    first = Signs({"drafts": 10, "generated_tokens": 40}, 100.0)
    assert other_server(Signs(), first) is None
    assert other_server(first, Signs({"drafts": 10, "generated_tokens": 41}, 100.0)) is None
    assert other_server(first, Signs({"drafts": 12, "generated_tokens": 9}, None)) is not None
    # a server without a draft has no such counter at all
    assert other_server(first, Signs({"generated_tokens": 90}, 100.0)) is not None
    # one that was asked more since its start than the one before it
    later = other_server(first, Signs({"drafts": 99, "generated_tokens": 400}, 101.0))
    assert later is not None
    assert later.startswith("it began at ")


def test_the_earliest_of_its_counters_says_when_it_began():
    found = signs(BEGUN, endpoint("http://127.0.0.1:1"))
    assert found is not None
    assert found.began == 1.6e9
    assert signs("<html>", endpoint("http://127.0.0.1:1")) is None


@pytest.mark.parametrize(
    "fault", ["", "no metrics", "empty metrics", "metrics html", "metrics vanish", "metrics nan"]
)
def test_one_that_keeps_its_counters_to_itself_is_no_other(fault):
    with rough(fault) as url:
        seen = SameServer(endpoint(url))
        for _ in range(3):
            seen.look()


def test_one_that_serves_another_model_is_another(monkeypatch):
    monkeypatch.setattr(same_server, "served_models", lambda _: ["Qwen/Qwen3-8B"])
    with pytest.raises(LaunchError, match="it serves Qwen/Qwen3-8B now, and not openai/gpt-oss-"):
        SameServer(endpoint("http://127.0.0.1:1")).look()


def test_a_benchmark_keeps_no_run_of_two_servers():
    with rough("counters begin again") as url:
        kept, error = go(REPORT, [side(url)], course())
    assert not kept
    assert "another server answers at http://127.0.0.1:" in str(error)
    assert str(error).endswith("than before: its counters fell back")


def test_a_verification_ends_at_the_first_few_questions_of_another_server():
    asked = Inquiry(
        questions=tuple(Question("w", Prompt(f"{n}?", "chat"), 8) for n in range(4)),
        style=Style(), concurrency=2,
    )  # fmt: skip
    answered = []
    with (
        rough("counters begin again") as url,
        rough() as other,
        pytest.raises(LaunchError, match="its counters fell back"),
    ):
        ask_all(
            [side(other, PLAIN), side(url)], asked,
            lambda side, number, _: answered.append((side.arm.name, number)),
        )  # fmt: skip
    assert {number for _, number in answered} == {0, 1}
