"""Requests that recurrent states keep waiting, however short they are, are told before a start."""

from __future__ import annotations

import json
import re

import pytest

from dflash_deploy.errors import DoesNotFit
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)
H200 = {"engine_version": "0.26.0", "context": 4096, "concurrency": 64}
"""What was run on one: 26 to 27 of 64 requests at a time with blocks of 16."""


def planned(gpu: str = "H200", engine: str = "vllm", model: str = "qwen3.5-27b", **asked) -> Plan:
    request = Request(model=model, engine=engine, **asked)
    return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus) if gpu else Hardware())


def told(plan: Plan) -> list[str]:
    return [line for line in plan.warnings if "recurrent states at blocks" in line]


@pytest.mark.parametrize(
    ("block", "runs", "states", "ways"),
    [
        (16, 26, "2.5", "--block-size 8 has room for 53, or --concurrency 26"),
        (8, 53, "1.2", "--block-size 4 has room for 64, or --concurrency 53"),
    ],
)
def test_how_many_run_and_what_helps(block: int, runs: int, states: str, ways: str) -> None:
    (line,) = told(planned(block_size=block, **H200))
    assert line == (
        f"memory has room for about {runs} of 64 requests at a time, however short: each holds"
        f" {states} GiB of a card in recurrent states at blocks of {block} ({ways})"
    )


@pytest.mark.parametrize("gpu", ["H100", "H200", "H200:2"])
def test_each_way_out_leads_out(gpu: str) -> None:
    (line,) = told(planned(gpu, block_size=16, concurrency=128))
    ways = re.search(r"--block-size (\d+) has room for (\d+), or --concurrency (\d+)", line)
    block, room, load = map(int, ways.groups())
    assert told(planned(gpu, block_size=16, concurrency=load)) == []
    (shorter,) = told(planned(gpu, block_size=block, concurrency=128))
    assert f" about {room} of 128 requests" in shorter
    assert room > load


@pytest.mark.parametrize(
    ("gpu", "asked"),
    [
        ("H200", {"block_size": 4, "concurrency": 64}),
        ("H200", {"block_size": 16, "concurrency": 16, "context": 131072}),  # long ones may wait
        ("H200:2", {"block_size": 16, "concurrency": 64, "tensor_parallel": 2}),
        ("", {"block_size": 16, "concurrency": 64}),
        ("H200", {"model": "qwen3-8b", "block_size": 16, "concurrency": 512}),
        ("H200", {"model": "gemma-4-31b", "block_size": 16, "concurrency": 256}),
    ],
)
def test_nothing_to_be_told(gpu: str, asked) -> None:
    assert told(planned(gpu, **asked)) == []


def test_only_a_block_that_is_shorter_and_not_refused_is_named() -> None:
    (shortest,) = told(planned(block_size=4, concurrency=256))
    assert shortest.endswith(" at blocks of 4 (--concurrency 85)")
    rates = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5] * 15}
    (refused,) = told(
        planned(block_size=16, engine_args=("--speculative-config", json.dumps(rates)), **H200)
    )
    assert refused.endswith(" at blocks of 16 (--concurrency 26)")


@pytest.mark.parametrize("gpu", ["H100", "H200"])
def test_a_load_that_nobody_asked_for_is_one_that_runs(gpu: str) -> None:
    own = planned(gpu)
    assert told(own) == []
    assert told(planned(gpu, concurrency=own.concurrency, block_size=own.block_size)) == []


def test_sglang_lowers_its_own_load() -> None:
    assert told(planned(engine="sglang", block_size=16, concurrency=64)) == []


def test_sglang_without_prefixes_reserves_all_or_does_not_start() -> None:
    asked = {"engine": "sglang", "engine_args": ("--disable-radix-cache",), "block_size": 16}
    assert told(planned(concurrency=16, **asked)) == []
    with pytest.raises(DoesNotFit):
        planned(concurrency=64, **asked)
