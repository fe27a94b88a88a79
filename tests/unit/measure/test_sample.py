from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.sample import (
    Answer,
    Counted,
    Cycles,
    Sample,
    merged,
    percentiles,
    quantile,
    run_of,
)

NUMBERS = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def answer(**changes) -> Answer:
    known = {"sent": 1.0, "first": 1.5, "ended": 3.5, "prompt_tokens": 10, "output_tokens": 21}
    return Answer(**known | changes)


def test_times_of_one_answer():
    run = run_of(Sample(answers=(answer(),), seconds=4.0))
    assert run.ttft.p50 == pytest.approx(0.5)
    assert run.tpot.p50 == pytest.approx(0.1)
    assert run.latency.p99 == pytest.approx(2.5)
    assert run.tokens_per_second == pytest.approx(21 / 4)


def test_a_failure_is_counted_with_its_reason_and_gives_no_tokens():
    lost = answer(error="the connection broke", output_tokens=5)
    run = run_of(Sample(answers=(answer(), lost, lost), seconds=4.0))
    assert (run.requests, run.failed, run.output_tokens) == (1, 2, 21)
    assert run.errors == ("the connection broke (2 times)",)


def test_nothing_answered_has_no_times():
    run = run_of(Sample(answers=(answer(error="status 500"),), seconds=1.0))
    assert run.ttft is run.tpot is run.latency is None
    assert run.tokens_per_second == 0


def test_one_token_has_no_time_per_token():
    assert run_of(Sample(answers=(answer(output_tokens=1),), seconds=1.0)).tpot is None


def test_counters_win_over_reports_and_reports_over_a_gauge():
    told = answer(cycles=Cycles(10, 150, 30))
    counted = Counted(drafts=20, draft_tokens=300, accepted=50, per_position=(15, 5), gauge=9.0)
    spec = run_of(Sample(answers=(told,), seconds=1, counted=counted)).speculation
    assert (spec.length, spec.per_position) == (3.5, (0.75, 0.25))
    assert run_of(Sample(answers=(told,), seconds=1)).speculation.length == 4.0
    gauged = run_of(Sample(answers=(answer(),), seconds=1, counted=Counted(gauge=2.5))).speculation
    assert (gauged.length, gauged.drafts) == (2.5, 0)
    assert run_of(Sample(answers=(answer(),), seconds=1)).speculation is None


def test_cached_tokens_are_the_answers_own_else_the_servers():
    counted = Counted(cached_tokens=64.0)
    assert run_of(Sample(answers=(answer(),), seconds=1, counted=counted)).cached_tokens == 64
    told = answer(cached_tokens=3)
    assert run_of(Sample(answers=(told,), seconds=1, counted=counted)).cached_tokens == 3


def test_merged_adds_counters_and_takes_the_longest_time():
    one = Sample(answers=(answer(),), seconds=2, counted=Counted(drafts=3, per_position=(2, 1)))
    two = Sample(answers=(answer(),), seconds=5, counted=Counted(drafts=4, per_position=(3,)))
    both = merged([one, two])
    assert (both.seconds, len(both.answers)) == (5, 2)
    assert (both.counted.drafts, both.counted.per_position) == (7, (5, 1))
    assert merged([Sample(answers=(), seconds=1)]).counted == Counted()


@given(NUMBERS)
def test_percentiles_lie_within_and_in_order(values):
    found = percentiles(values)
    slack = 1e-9 * max(values) + 1e-12
    assert min(values) - slack <= found.p50 <= found.p90 + slack
    assert found.p90 - slack <= found.p99 <= max(values) + slack
    assert found.p50 == pytest.approx(statistics.median(values))


@given(NUMBERS, st.floats(0, 1))
def test_a_quantile_is_between_its_neighbours(values, share):
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    found = quantile(ordered, share)
    slack = 1e-9 * max(values) + 1e-12
    assert ordered[int(at)] - slack <= found <= ordered[min(int(at) + 1, len(ordered) - 1)] + slack
