"""A context stretched by YaRN, as it is planned, judged by the engines' own configuration."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName
from tests.contract.engine_cases import (
    REGISTRY,
    RELEASES,
    ROOT,
    TIMEOUT,
    Case,
    Release,
    as_case,
    engine_env,
    folder,
    judge,
)

pytestmark = TIMEOUT
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


@cache
def verdicts(release: Release) -> dict[str, dict[str, Any]]:
    """Of the plan, of one that says the length as well, and without the plan's variable.

    The engine is started once for all three.
    """
    planned, longer = stretched(release), stretched(release, max_position_embeddings=LONG)
    asked = (planned, replace(longer, id="said"), replace(planned, id="bare", env={}))
    return judge(release, [case.message() for case in asked])


@pytest.mark.parametrize("release", [VLLM, OLDER_VLLM, SGLANG], ids=str)
def test_the_engine_takes_it(release: Release) -> None:
    found = [verdicts(release)[name] for name in ("planned", "said")]
    assert [each["message"] for each in found if not each["ok"]] == []
    assert {each["resolved"]["context"] for each in found} == {LONG}


@pytest.mark.parametrize(
    ("release", "says"),
    [(VLLM, "greater than the derived max_model_len"),
     (SGLANG, "greater than the derived context_length")],
    ids=str,
)  # fmt: skip
def test_the_engine_refuses_it_without_the_variable_that_the_plan_sets(
    release: Release, says: str
) -> None:
    assert says in verdicts(release)["bare"]["message"]


DRAFT_CONFIG = """
import json, sys
import stand_ins
stand_ins.stand_in()
from sglang.srt.configs.model_config import ModelConfig
draft, rope = sys.argv[1], json.loads(sys.argv[2])
for override in ({"rope_parameters": rope}, {"text_config": {"rope_parameters": rope}}):
    try:
        ModelConfig(draft, model_override_args=json.dumps(override), is_draft_model=True,
                    trust_remote_code=False)
        print("fine")
    except AttributeError as error:
        print(error)
"""


def test_sglang_has_no_config_of_a_draft_with_an_override_of_text_config() -> None:
    """`text-config-override`: it makes one with the target's override when it loads the draft
    (managers/tp_worker.py).
    """
    made = engine_env().environment(SGLANG.engine, SGLANG.version)
    path = f"{ROOT / 'tools'}{os.pathsep}{made.env['PYTHONPATH']}"
    draft = str(folder("z-lab/Qwen3.5-27B-DFlash", "sglang"))
    said = subprocess.run(
        [str(made.python), "-c", DRAFT_CONFIG, draft, json.dumps(ROPE)],
        env=os.environ | made.env | {"PYTHONPATH": path}, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    plain, nested = said[-2:]
    assert plain == "fine"
    assert "no attribute 'max_position_embeddings'" in nested
