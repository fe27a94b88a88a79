"""A context stretched by YaRN, as it is planned, judged by the engines' own configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName
from tests.contract.engine_cases import REGISTRY, RELEASES, Case, Release, as_case, judge

pytestmark = pytest.mark.timeout(1200)  # the first run fetches the engines and torch
VLLM, OLDER_VLLM, SGLANG, _ = RELEASES
ROPE = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
    "rope_theta": 1000000,
}  # fmt: skip
FLAGS: dict[EngineName, str] = {"vllm": "--hf-overrides", "sglang": "--json-model-override-args"}
LONG = 131072


def stretched(release: Release, **override: Any) -> Case:
    said = {"rope_parameters": ROPE} | override
    request = Request(
        model="Qwen/Qwen3-8B", engine=release.engine, engine_version=release.version,
        context=LONG, engine_args=(FLAGS[release.engine], json.dumps(said)),
    )  # fmt: skip
    plan = make_plan(REGISTRY, request, parse("H100", REGISTRY.gpus))
    return as_case("planned", "H100", plan, judge_config=True)


@pytest.mark.parametrize("release", [VLLM, OLDER_VLLM, SGLANG], ids=str)
def test_the_engine_takes_it(release: Release) -> None:
    planned = stretched(release)
    said = stretched(release, max_position_embeddings=LONG)
    verdicts = judge(release, [planned.message(), replace(said, id="said").message()])
    assert {name: each["message"] for name, each in verdicts.items() if not each["ok"]} == {}
    if release.engine == "vllm":
        assert {each["resolved"]["context"] for each in verdicts.values()} == {LONG}


def test_vllm_refuses_it_without_what_the_plan_adds() -> None:
    bare = replace(stretched(VLLM), env={})
    (verdict,) = judge(VLLM, [bare.message()]).values()
    assert "greater than the derived max_model_len" in verdict["message"]
