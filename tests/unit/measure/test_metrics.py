from __future__ import annotations

import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.live import Reading, reading
from dflash_deploy.measure.metrics import (
    SpeculationCounters,
    counters,
    last_length,
    names_of,
    read,
    read_counters,
)
from dflash_deploy.plan import Endpoint
from dflash_deploy.schema import EngineName
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


def of(text: str, engine: EngineName = "vllm", version: str | None = None) -> Reading:
    return reading(text, names_of(engine, version), 0)


def test_counters_are_summed_over_every_label() -> None:
    assert counters(of(VLLM)) == SpeculationCounters(40.0, 600.0, 100.0, (35.0, 8.0))


def test_the_acceptance_length_counts_the_bonus_token() -> None:
    found = counters(of(VLLM))

    assert found is not None
    assert found.acceptance_length == 3.5
    assert SpeculationCounters(0, 0, 0).acceptance_length is None


def test_a_difference_of_two_readings() -> None:
    before = SpeculationCounters(10, 70, 20, (8.0,))
    after = SpeculationCounters(30, 210, 80, (26.0, 18.0))

    assert after.since(before) == SpeculationCounters(20, 140, 60, (18.0, 18.0))


def test_a_server_without_speculation_has_no_counters() -> None:
    assert counters(of("# TYPE vllm:x gauge\nvllm:x 1.0\n")) is None
    assert last_length(of("", "sglang")) is None


def test_gauges_of_idle_ranks_are_left_out() -> None:
    assert last_length(of(SGLANG, "sglang")) == 4.5
    assert last_length(of(SGLANG.replace("4.5", "0.0"), "sglang")) == 0
    # it counts cycles, and not the tokens that were accepted in them
    assert counters(of(SGLANG, "sglang")) is None


def test_names_are_those_of_the_release_and_the_newest_where_it_is_unknown() -> None:
    assert "drafts" not in names_of("sglang", "0.5.12")
    newest = names_of("sglang", None)
    assert "drafts" in newest
    assert names_of("sglang", "of my own") == newest


def test_reading_from_running_servers(serve: Serve) -> None:
    found, other = read_counters(serve("vllm")), read(serve("sglang"))

    assert found is not None
    assert len(found.per_position) == 15
    assert other is not None
    assert last_length(other) == 0


def test_metrics_switched_off_are_nothing_and_no_error(serve: Serve) -> None:
    assert read_counters(serve("vllm", METRICS=0)) is None


def test_nobody_there_is_an_error_in_words() -> None:
    with pytest.raises(LaunchError, match=r"no server answers at http://127\.0\.0\.1:9"):
        read_counters(Endpoint("http://127.0.0.1:9", "m", "vllm"))
