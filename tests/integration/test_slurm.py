"""The batch script, read and run by a real Slurm."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

import httpx
import pytest

from tests.fakes import install_fakes
from tests.slurm_cluster import CARDS, NODES, slurm
from tests.unit.render.exported import PAIRS, odd, planned, text, with_key

__all__ = ["slurm"]
PLANS = {name: planned(*pair) for name, pair in PAIRS.items()} | {
    "odd": odd(),
    **{f"over-two-{engine}": planned("gpt-oss-120b", engine, "H100:8", nodes=2)
       for engine in ("vllm", "sglang")},
}  # fmt: skip
NOTES = """\
#!/bin/bash
printf '%s\\n' "$SLURMD_NODENAME" "$CUDA_VISIBLE_DEVICES" "$@" > "words-$SLURM_NODEID"
"""
"""An engine that writes down what it was told, and where."""


@pytest.fixture
def script(tmp_path):
    def written(plan):
        file = tmp_path / "serve.sh"
        file.write_text(text("slurm", plan) + "\n")
        return file

    return written


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_slurm_takes_the_script(slurm, script, plan):
    done = slurm.run("sbatch", "--test-only", script(plan))
    assert done.returncode == 0, done.stderr
    assert re.search(rf"using {8 * plan.tensor_parallel} processors", done.stderr)


def test_slurm_refuses_more_cards_than_a_node_has(slurm, script):
    """What `--test-only` takes is not just anything."""
    file = script(PLANS["gpt-oss-20b-vllm"])
    file.write_text(file.read_text().replace("per-node=1", f"per-node={CARDS + 1}"))
    assert slurm.run("sbatch", "--test-only", file).returncode != 0


def test_a_job_serves_on_its_cards_until_it_is_cancelled(slurm, script, port, tmp_path):
    plan = with_key(planned("gemma-4-31b", "vllm", "A100:2", port=port))
    install_fakes(tmp_path / f"data/dflash/engines/vllm-{plan.version}/bin", plan.version)
    echo = tmp_path / "echo.json"
    given = {
        "XDG_DATA_HOME": str(tmp_path / "data"), "FAKE_ENGINE_ECHO": str(echo),
        "DFLASH_API_KEY": "s3cret",
    }  # fmt: skip
    done = slurm.run("sbatch", "--parsable", "--chdir", tmp_path, script(plan), **given)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    try:
        assert until(lambda: answers(plan)), log(tmp_path)
        seen = json.loads(echo.read_text())
        assert seen["argv"] == list(plan.argv[1:])
        assert seen["env"]["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert seen["env"]["VLLM_API_KEY"] == "s3cret"
    finally:
        slurm.run("scancel", job)
    assert until(lambda: not slurm.run("squeue", "--noheader").stdout.strip())
    assert not answers(plan)
    assert "s3cret" not in log(tmp_path)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_node_of_a_job_is_told_what_is_its_own(slurm, script, tmp_path, engine):
    plan = PLANS[f"over-two-{engine}"]
    program = tmp_path / f"data/dflash/engines/{engine}-{plan.version}/bin" / engine
    program.parent.mkdir(parents=True)
    program.write_text(NOTES)
    program.chmod(0o755)
    given = {"XDG_DATA_HOME": str(tmp_path / "data")}
    done = slurm.run("sbatch", "--wait", "--chdir", tmp_path, script(plan), **given)
    assert done.returncode == 0, done.stderr + log(tmp_path)
    for rank, name in enumerate(NODES):
        where, cards, *words = (tmp_path / f"words-{rank}").read_text().splitlines()
        assert (where, cards) == (name, "0,1,2,3,4,5,6,7")
        assert words == list(plan.of_node(str(rank), NODES[0], first=not rank)[1:])


def test_a_job_without_its_key_ends_before_the_server_starts(slurm, script, port, tmp_path):
    plan = with_key(planned("gpt-oss-20b", "vllm", "H100", port=port))
    given = {"XDG_DATA_HOME": str(tmp_path / "data"), "DFLASH_API_KEY": ""}
    done = slurm.run("sbatch", "--wait", "--chdir", tmp_path, script(plan), **given)
    assert done.returncode != 0
    assert "DFLASH_API_KEY: is not set" in log(tmp_path)


def answers(plan) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(plan.base_url + plan.health_path).is_success
    return False


def log(folder) -> str:
    return "\n".join(file.read_text() for file in folder.glob("dflash-*.log"))


def until(true, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.1)
    return False
