"""Every exported form, read by the program it is for."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.render.exported import (
    PAIRS,
    composed,
    kubernetes,
    odd,
    planned,
    ran,
    text,
    with_key,
)  # fmt: skip

PLANS = {name: planned(*pair) for name, pair in PAIRS.items()} | {
    "odd": odd(),
    "key": with_key(planned("gpt-oss-20b", "vllm", "H100")),
}
KEY = {"DFLASH_API_KEY": "x"}


@pytest.fixture(params=PLANS)
def plan(request):
    return PLANS[request.param]


def test_compose_reads_the_compose_file(plan, tmp_path):
    file = tmp_path / "compose.yaml"
    file.write_text(text("compose", plan))
    done = ran("docker-compose", "-f", file, "config", "--quiet", **KEY)
    assert (done.returncode, done.stderr) == (0, "")


def test_compose_stops_without_the_key(tmp_path):
    file = tmp_path / "compose.yaml"
    file.write_text(text("compose", PLANS["key"]))
    done = ran("docker-compose", "-f", file, "config", "--quiet")
    assert done.returncode != 0
    assert "DFLASH_API_KEY" in done.stderr


def test_compose_fills_in_the_folders_and_the_key(tmp_path):
    service = composed(text("compose", PLANS["key"]), tmp_path, HF_HOME="/data/hub", **KEY)
    assert service["environment"]["VLLM_API_KEY"] == "x"
    assert "/data/hub" in {volume["source"] for volume in service["volumes"]}


def test_kubernetes_validates_the_objects(plan, tmp_path):
    file = tmp_path / "objects.yaml"
    file.write_text(text("k8s", plan))
    done = ran("kubernetes-validate", "--strict", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kubernetes_validates_the_pod_of_kserve(plan, tmp_path):
    """The rest of an InferenceService is KServe's own: tests/contract has its models read it."""
    service = kubernetes(text("kserve", plan))["InferenceService"]
    pod = service["spec"]["predictor"]
    replicas = pod.pop("minReplicas"), pod.pop("maxReplicas")
    strategy = pod.pop("deploymentStrategy")
    labels = service["metadata"]["labels"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": service["metadata"],
        "spec": {
            "replicas": replicas[0],
            "strategy": strategy,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump(deployment))
    done = ran("kubernetes-validate", "--strict", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_verifies_the_unit(plan, tmp_path):
    file = tmp_path / "dflash-test.service"
    file.write_text(text("systemd", plan) + "\n")
    done = ran("systemd-analyze", "verify", file)
    # an unknown key or a bad value is a line on stderr, and success
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("form", ["docker", "slurm"])
def test_shellcheck_finds_nothing(form, plan, tmp_path):
    file = tmp_path / f"{form}.sh"
    file.write_text(text(form, plan) + "\n")
    # these two doubt that words in single quotes are meant as they stand; here they are
    done = ran("shellcheck", "--shell", "bash", "--exclude", "SC2016,SC1003", file)
    assert done.returncode == 0, done.stdout
