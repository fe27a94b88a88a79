"""The task of `plan --format skypilot`, read by SkyPilot itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from dflash_deploy.render.skypilot import NAMES
from tests.contract.package_env import python_with
from tests.unit.render.exported import PAIRS, odd, planned, text, with_key

PLANS = {
    "gpt-oss-20b-vllm": planned(*PAIRS["gpt-oss-20b-vllm"]),
    "gemma-4-31b-sglang": planned(*PAIRS["gemma-4-31b-sglang"]),
    "open": planned("gpt-oss-20b", "vllm", "H100", host="0.0.0.0", port=8123),
    "two nodes": planned("gpt-oss-120b", "vllm", "H100:8", nodes=2),
    "odd": odd(),
    "key": with_key(planned("gpt-oss-20b", "vllm", "H100")),
}
READ = """
import json, sys, yaml, sky
task = sky.Task.from_yaml_config(yaml.safe_load(open(sys.argv[1])), secrets_overrides=json.loads(sys.argv[2]))
(resources,) = task.resources
print(json.dumps({
    "run": task.run, "nodes": task.num_nodes, "cards": resources.accelerators,
    "image": resources.image_id, "ports": resources.ports, "disk": resources.disk_size,
    "envs": task.envs, "secrets": sorted(task.secrets),
}))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    return python_with("skypilot==0.14.1")


@pytest.fixture
def read(python, tmp_path):
    """What SkyPilot makes of a file, without a network."""

    def done(written: str, **secrets: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "task.yaml"
        file.write_text(written)
        return subprocess.run(
            [python, "-c", READ, file, json.dumps(secrets)], cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    return done


@pytest.mark.parametrize("name", PLANS)
def test_skypilot_reads_the_task(read, name):
    written = text("skypilot", PLANS[name])
    given = {"VLLM_API_KEY": "x"} if name == "key" else {}
    done = read(written, **given)
    assert done.returncode == 0, done.stderr
    seen, said = json.loads(done.stdout), yaml.safe_load(written)
    assert seen["run"] == said["run"]
    assert (seen["nodes"], seen["cards"]) == (said["num_nodes"], said["resources"]["accelerators"])
    assert said["resources"]["image_id"] in seen["image"].values()
    assert seen["ports"] == (["8123"] if name == "open" else None)
    assert seen["envs"].items() >= PLANS[name].env.items()
    assert seen["secrets"] == sorted(said["secrets"])


def test_skypilot_refuses_what_it_does_not_know(read):
    """What it takes is not just anything."""
    written = text("skypilot", PLANS["open"])
    assert read(written.replace("num_nodes:", "nodes:")).returncode != 0
    assert read(written.replace("disk_size:", "disk:")).returncode != 0


def test_its_names_of_cards_are_its_own(python):
    package = next(python.parents[1].glob("lib/python*/site-packages/sky"))
    source = "\n".join(file.read_text() for file in package.rglob("*.py"))
    assert [name for name in NAMES.values() if f"'{name}'" not in source] == []
