from __future__ import annotations

import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.metrics import (
    SpeculationCounters,
    parse_counters,
    parse_gauges,
    read_counters,
    read_gauges,
)
from dflash_deploy.plan import Endpoint
from tests.unit.measure.conftest import Serve

VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 30.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.764e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 150.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m"} 450.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 40.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m"} 60.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 10.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="0"} 25.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 8.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0.0
"""
SGLANG = """\
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{model_name="m",tp_rank="0"} 4.5
sglang:spec_accept_length{model_name="m",tp_rank="1"} 0.0
# TYPE sglang:spec_accept_rate gauge
sglang:spec_accept_rate{model_name="m",tp_rank="0"} 0.25
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{model_name="m",tp_rank="0"} 12.0
"""


def test_counters_are_summed_over_every_label() -> None:
    assert parse_counters(VLLM) == SpeculationCounters(40.0, 600.0, 100.0, (35.0, 8.0))


def test_the_acceptance_length_counts_the_bonus_token() -> None:
    counters = parse_counters(VLLM)

    assert counters is not None
    assert counters.acceptance_length == 3.5
    assert SpeculationCounters(0, 0, 0).acceptance_length is None


def test_a_difference_of_two_readings() -> None:
    before = SpeculationCounters(10, 70, 20, (8.0,))
    after = SpeculationCounters(30, 210, 80, (26.0, 18.0))

    assert after.since(before) == SpeculationCounters(20, 140, 60, (18.0, 18.0))


def test_a_server_without_speculation_has_no_counters() -> None:
    assert parse_counters("# TYPE vllm:x gauge\nvllm:x 1.0\n") is None
    assert parse_gauges("") is None


def test_gauges_of_idle_ranks_are_left_out() -> None:
    gauges = parse_gauges(SGLANG)

    assert gauges is not None
    assert gauges.accept_length == 4.5
    assert gauges.accept_rate == 0.25
    assert gauges.verify_calls == 12.0


def test_sglang_before_the_verify_counter() -> None:
    gauges = parse_gauges("".join(SGLANG.splitlines(keepends=True)[:3]))

    assert gauges is not None
    assert gauges.verify_calls is None


def test_reading_from_running_servers(serve: Serve) -> None:
    counters, gauges = read_counters(serve("vllm")), read_gauges(serve("sglang"))

    assert counters is not None
    assert len(counters.per_position) == 15
    assert gauges is not None
    assert gauges.verify_calls == 0


def test_metrics_switched_off_are_nothing_and_no_error(serve: Serve) -> None:
    assert read_counters(serve("vllm", METRICS=0)) is None


def test_nobody_there_is_an_error_in_words() -> None:
    with pytest.raises(LaunchError, match=r"no server answers at http://127\.0\.0\.1:9"):
        read_counters(Endpoint("http://127.0.0.1:9", "m", "vllm"))
