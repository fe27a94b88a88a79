"""Several nodes for one server, and several servers behind a router: the same argv everywhere."""

from __future__ import annotations

import json
import shlex

import msgspec
import pytest
import yaml

from dflash_deploy.errors import DoesNotFit, Unsupported, UsageError
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.render.command import render
from dflash_deploy.render.exports import export
from dflash_deploy.render.router import router
from tests.unit.render.exported import REGISTRY, USER, called, planned, ran

ENGINES = ("vllm", "sglang")
TOLD = {
    "vllm": ["--nnodes", "2", "--node-rank", "RANK", "--master-addr", "HEAD"],
    "sglang": ["--nnodes", "2", "--node-rank", "RANK", "--dist-init-addr", "HEAD:20000"],
}
BEYOND = {"vllm": ["--headless"], "sglang": []}


def over_two(engine: str, **options: object):
    return planned("gpt-oss-120b", engine, "H100:8", nodes=2, **options)


def of_node(plan, rank: int, head: str) -> list[str]:
    said = [w.replace("RANK", str(rank)).replace("HEAD", head) for w in TOLD[plan.engine]]
    return [*plan.argv, *said, *(BEYOND[plan.engine] if rank else [])]


def text(form: str, plan, replicas: int = 1) -> str:
    return export(form, plan, REGISTRY.engines[plan.engine], USER, replicas).text


def objects(written: str) -> list[dict]:
    return list(yaml.safe_load_all(written))


@pytest.mark.parametrize("engine", ENGINES)
def test_all_cards_of_both_nodes_share_the_model(engine):
    plan = over_two(engine)
    assert (plan.tensor_parallel, plan.cards_here) == (16, 8)
    assert any("several nodes" in line for line in plan.warnings)


def test_each_card_holds_less_of_the_weights():
    one, two = planned("gpt-oss-120b", "vllm", "H100:8", tensor_parallel=8), over_two("vllm")
    assert two.memory.target < one.memory.target


def test_cards_that_do_not_divide_by_the_nodes_are_a_slip():
    with pytest.raises(UsageError) as caught:
        over_two("vllm", tensor_parallel=3)
    assert caught.value.hint == "--tensor-parallel 4"


def test_more_cards_than_all_nodes_have_are_refused():
    with pytest.raises(DoesNotFit):
        over_two("vllm", tensor_parallel=32)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_command_for_each_node(engine, tmp_path):
    plan = over_two(engine)
    first, second = render(plan).split("# node 1")
    head = "HEAD=10.0.0.1\n"
    assert first.startswith("HEAD=ADDRESS_OF_NODE_0\n")
    for rank, script in enumerate((first.partition("\n")[2], second)):
        said = called(head + script, plan.argv[0], tmp_path)
        assert [plan.argv[0], *said] == of_node(plan, rank, "10.0.0.1")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rank", [0, 1])
def test_slurm_runs_on_each_node_what_is_its_own(engine, rank, tmp_path):
    plan = over_two(engine)
    written = text("slurm", plan)
    assert "#SBATCH --nodes=2" in written
    assert "#SBATCH --gpus-per-node=8" in written
    for name, body in (("scontrol", "echo node-a; echo node-b"), ("srun", 'shift; exec "$@"')):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_NODEID": str(rank), "SLURM_JOB_NODELIST": "node-[a-b]",
             "SLURM_CPUS_PER_TASK": "8"}  # fmt: skip
    said = called(written, plan.argv[0], tmp_path, **slurm)
    assert [plan.argv[0], *said] == of_node(plan, rank, "node-a")
    (tmp_path / "job.sh").write_text(written + "\n")
    found = ran("shellcheck", tmp_path / "job.sh")
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_leader_worker_set_has_a_pod_a_node(engine, tmp_path):
    plan = over_two(engine)
    claim, group, service = objects(text("k8s", plan))
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    template = group["spec"]["leaderWorkerTemplate"]
    assert (group["kind"], template["size"]) == ("LeaderWorkerSet", 2)
    for rank, role in enumerate(("leaderTemplate", "workerTemplate")):
        (server,) = template[role]["spec"]["containers"]
        assert server["resources"]["limits"] == {"nvidia.com/gpu": 8}
        said = [word.replace("$(LWS_WORKER_INDEX)", str(rank)) for word in server["command"]]
        wanted = of_node(plan, rank, "$(LWS_LEADER_ADDRESS)")
        wanted[wanted.index("--host") + 1] = "0.0.0.0"
        assert [word.replace("$$", "$") for word in said] == wanted
        assert ("readinessProbe" in server) == (rank == 0)
    # the controller's own headless service bears the set's name, unless there is one already
    assert service["metadata"]["name"] != group["metadata"]["name"]
    leader = template["leaderTemplate"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= leader.items()
    # its pods are what a Deployment of the same templates would be
    pods = [_deployment(group, template[role]) for role in ("leaderTemplate", "workerTemplate")]
    assert _valid([claim, service, *pods], tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_replicas_over_nodes_are_groups_whose_first_pods_the_router_knows(engine, tmp_path):
    plan = over_two(engine)
    claim, group, front, service = objects(text("k8s", plan, 3))
    (alone,) = [one for one in objects(text("k8s", plan)) if one["kind"] == group["kind"]]
    assert group["spec"].pop("replicas") == 3
    assert alone["spec"].pop("replicas") == 1
    assert group == alone
    (box,) = front["spec"]["template"]["spec"]["containers"]
    name = group["metadata"]["name"]
    for number in range(3):
        assert f"http://{name}-{number}.{name}:{plan.port}" in box["command"]
    pods = front["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    assert service["metadata"]["name"] != name
    assert _valid([claim, front, service], tmp_path)


@pytest.mark.parametrize("form", ["slurm", "compose"])
def test_replicas_over_nodes_in_another_form_are_refused(form):
    with pytest.raises(Unsupported) as caught:
        text(form, over_two("vllm"), 2)
    assert "--format k8s" in caught.value.hint


@pytest.mark.parametrize("form", ["docker", "compose", "systemd", "vllm-config"])
def test_a_form_of_one_machine_refuses_two(form):
    with pytest.raises(Unsupported) as caught:
        text(form, over_two("vllm"))
    assert "slurm" in caught.value.hint


@pytest.mark.parametrize("engine", ENGINES)
def test_replicas_in_kubernetes_are_known_to_the_router_by_name(engine, tmp_path):
    plan = planned("qwen3-8b", engine, "H100")
    written = objects(text("k8s", plan, 4))
    claim, servers, hosts, front, _ = written
    assert servers["spec"]["replicas"] == 4
    (server,) = servers["spec"]["template"]["spec"]["containers"]
    wanted = list(plan.argv)
    wanted[wanted.index("--host") + 1] = "0.0.0.0"
    assert [word.replace("$$", "$") for word in server["command"]] == wanted
    (box,) = front["spec"]["template"]["spec"]["containers"]
    name = servers["metadata"]["name"]
    for number in range(4):
        url = f"http://{name}-{number}.{hosts['metadata']['name']}:{plan.port}"
        assert url in box["command"]
    assert (
        box["readinessProbe"]["httpGet"]["path"] == "/readiness"
    )  # /health answers before any can
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert _valid(written, tmp_path)


@pytest.mark.parametrize("options", [{}, {"nodes": 2}, {"replicas": 4}], ids=str)
def test_no_cluster_sees_a_folder_of_this_machine(options, tmp_path):
    """One of a shared file system is a claim of its own; this file would name none."""
    count = options.pop("replicas", 1)
    plan = planned("gpt-oss-120b", "vllm", "H100:8", target_path=str(tmp_path), **options)
    with pytest.raises(Unsupported) as caught:
        text("k8s", plan, count)
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize("engine", ENGINES)
def test_replicas_in_compose_have_cards_of_their_own(engine, tmp_path):
    plan = planned("gemma-4-31b", engine, "H100:8", tensor_parallel=2)
    file = tmp_path / "compose.yaml"
    file.write_text(text("compose", plan, 4))
    done = ran("docker-compose", "-f", file, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    front = services.pop(f"dflash-gemma-4-31b-it-{plan.port}")
    taken = [
        card
        for service in services.values()
        for device in service["deploy"]["resources"]["reservations"]["devices"]
        for card in device["device_ids"]
    ]
    assert sorted(taken) == list("01234567")
    assert front["read_only"]
    assert len({tuple(service["entrypoint"]) for service in services.values()}) == 1
    assert [port["published"] for port in front["ports"]] == [str(plan.port)]
    for name in services:
        assert f"http://{name}:{plan.port}" in front["entrypoint"]


def test_replicas_take_the_cards_that_were_found_by_their_ids():
    cards = [Card("H100", "hopper", 80, uuid=f"GPU-{number}") for number in (5, 2)]
    plan = msgspec.structs.replace(
        planned("qwen3-8b", "vllm", "H100:2"), hardware=Hardware(tuple(cards), "found"),
    )  # fmt: skip
    written = text("compose", plan, 2)
    assert [written.count(f"- GPU-{number}") for number in (5, 2)] == [1, 1]


def test_more_replicas_than_there_are_cards_do_not_fit():
    with pytest.raises(DoesNotFit) as caught:
        text("compose", planned("qwen3-8b", "vllm", "H100:2"), 4)
    assert caught.value.hint == "--gpu H100:4, or --replicas 2"


@pytest.mark.parametrize("form", ["docker", "slurm", "systemd"])
def test_a_form_of_one_server_refuses_replicas(form):
    with pytest.raises(Unsupported):
        text(form, planned("qwen3-8b", "vllm", "H100"), 2)


def test_the_router_takes_its_command():
    """By its own parser; tests/integration/test_router.py runs it."""
    from sglang_router.launch_router import parse_router_args

    argv = router().argv(("http://a:1", "http://b:1"), 8000, "/health", 900)
    read = parse_router_args(list(argv[len(router().command) :]))
    assert (read.worker_urls, read.port) == (["http://a:1", "http://b:1"], 8000)
    assert (read.policy, read.worker_startup_timeout_secs) == ("round_robin", 900)


def _deployment(group: dict, template: dict) -> dict:
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": group["metadata"]["name"]},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def _valid(written: list[dict], folder) -> bool:
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(written))
    done = ran("kubernetes-validate", "--strict", file)
    assert done.returncode == 0, shlex.join([done.stdout, done.stderr])
    return True
