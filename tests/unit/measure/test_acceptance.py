from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.measure import acceptance
from dflash_deploy.measure.acceptance import PROMPTS, Acceptance, check
from dflash_deploy.measure.metrics import SpeculationCounters
from dflash_deploy.plan import Endpoint
from tests.unit.measure.conftest import Serve


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_length_is_what_the_engine_accepts(serve: Serve, engine: str) -> None:
    found = check(serve(engine, ACCEPTANCE=4.0), thinking="off", thinking_key="enable_thinking")

    assert found.length == pytest.approx(4.0)
    assert found.drafts == 64
    assert found.tokens == 4 * 64
    assert "4 requests" in found.method


def test_only_this_checks_requests_are_counted(serve: Serve) -> None:
    endpoint = serve("vllm", ACCEPTANCE=4.0)
    check(endpoint, prompts=PROMPTS[:1])

    assert check(endpoint, prompts=PROMPTS[:1]).drafts == 16


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_inactive_draft_has_length_one(serve: Serve, engine: str) -> None:
    assert check(serve(engine, ACCEPTANCE=1.0)).length == pytest.approx(1.0)


def test_a_server_without_a_draft(serve: Serve) -> None:
    assert check(serve("vllm", speculate=False)) == Acceptance(
        None, None, 256, "the server publishes no speculation counters"
    )


def test_sglang_without_a_draft_reports_no_verify_steps(serve: Serve) -> None:
    found = check(serve("sglang", speculate=False))

    assert found.length is None
    assert found.drafts == 0


def test_an_older_sglang_has_only_its_gauge_and_that_is_said(serve: Serve) -> None:
    found = check(serve("sglang", "0.5.12", ACCEPTANCE=3.5))

    assert found.length == 3.5
    assert found.drafts is None
    assert "gauge" in found.method


def test_a_wrong_key_is_told_apart(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    monkeypatch.setenv("MINE", "wrong")

    with pytest.raises(UsageError, match="wants an API key"):
        check(serve("vllm", key_env="MINE"))


def test_counters_that_lag_are_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([SpeculationCounters(5, 35, 10), SpeculationCounters(25, 175, 70)])
    monkeypatch.setattr(acceptance, "read_counters", lambda _: next(readings))
    monkeypatch.setattr(acceptance.time, "sleep", lambda _: None)
    endpoint = Endpoint("http://127.0.0.1:9", "m", "vllm")

    counted = acceptance._counted_since(endpoint, SpeculationCounters(5, 35, 10))

    assert counted == SpeculationCounters(20, 140, 60)
