"""What a task of SkyPilot says besides its command; tests/contract has SkyPilot read it."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from dflash_deploy.errors import Unsupported
from tests.unit.render.exported import planned, skypilot_argv, text, with_key


def task(plan) -> dict:
    return yaml.safe_load(text("skypilot", plan))


@pytest.mark.parametrize(
    ("host", "opened"), [("127.0.0.1", None), ("localhost", None), ("0.0.0.0", [8000])]
)
def test_a_port_is_opened_for_a_server_that_listens_to_the_world_alone(host, opened):
    plan = planned("gpt-oss-20b", "vllm", "H100", host=host)
    assert task(plan)["resources"].get("ports") == opened


@pytest.mark.parametrize(("gpu", "named"), [("A100", "A100-80GB"), ("A100-40", "A100")])
def test_a_card_has_skypilots_own_name(gpu, named):
    plan = planned("gpt-oss-20b", "vllm", gpu)
    assert task(plan)["resources"]["accelerators"] == {named: 1}


@pytest.mark.parametrize(
    ("gpu", "hint"), [(None, "--gpu H100"), ("H20", "--format k8s"), ("RTX-A6000", "--format k8s")]
)
def test_a_card_without_a_name_there_is_refused(gpu, hint):
    with pytest.raises(Unsupported) as refused:
        task(planned("qwen3.5-4b", "vllm", gpu))
    assert refused.value.hint == hint


def test_without_its_key_the_server_does_not_start(tmp_path):
    written = text("skypilot", with_key(planned("gpt-oss-20b", "vllm", "H100")))
    assert yaml.safe_load(written)["secrets"] == {"HF_TOKEN": "", "VLLM_API_KEY": None}
    assert skypilot_argv(written, tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        skypilot_argv(written, tmp_path, VLLM_API_KEY="")
    assert b"VLLM_API_KEY: is not set" in stopped.value.stderr


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("rank", [0, 1])
def test_each_node_is_told_what_is_its_own(engine, rank, tmp_path):
    plan = planned("gpt-oss-120b", engine, "H100:8", nodes=2)
    assert (task(plan)["num_nodes"], task(plan)["resources"]["accelerators"]) == (2, {"H100": 8})
    given = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": str(rank)}
    said = skypilot_argv(text("skypilot", plan), tmp_path, **given)
    assert said == list(plan.of_node(str(rank), "10.0.0.1", first=not rank))
