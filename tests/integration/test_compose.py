"""The compose file, brought up by the real compose on a real daemon: all of it but the cards."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from dflash_deploy.registry import load
from tests.docker_engine import free_port

COMPOSE = Path(sys.executable).parent / "docker-compose"
ENGINES = load(user=False).engines


@pytest.fixture
def compose(docker_engine, bare, tmp_path):
    """Run a compose command on the file; in the end what it started is gone."""
    file = tmp_path / "compose.yaml"

    def ran(*words: str) -> str:
        done = subprocess.run(
            [str(COMPOSE), "--file", str(file), *words],
            env=bare.env | {"DOCKER_HOST": docker_engine.host},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield ran
    ran("down", "--timeout", "5")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_it_comes_up_answers_and_goes(docker_engine, bare, compose, tmp_path, engine):
    port, newest = free_port(), ENGINES[engine].releases[-1].version
    image = ENGINES[engine].images[0].reference.format(version=newest)
    docker_engine.give(image, engine=engine)
    planned = bare.run(
        "plan", "gpt-oss-20b", "--engine", engine, "--gpu", "H100", "--port", str(port),
        "--format", "compose",
    )  # fmt: skip
    document = yaml.safe_load(planned.out)
    (service,) = document["services"].values()
    del service["deploy"]  # this daemon gives no cards
    service["healthcheck"]["interval"] = "1s"
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(document))
    _make(service["volumes"], bare.env)

    compose("up", "--detach", "--wait", "--wait-timeout", "90")

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=20) as answer:
        assert b"openai/gpt-oss-20b" in answer.read()
    (container,) = docker_engine.client.containers.list(filters={"name": service["container_name"]})
    seen = container.attrs
    assert (seen["Config"]["Image"], seen["Config"]["User"]) == (image, service["user"])
    assert [seen["Path"], *seen["Args"]] == service["entrypoint"]
    assert sorted(mount["Destination"] for mount in seen["Mounts"]) == sorted(
        volume["target"] for volume in service["volumes"]
    )
    assert not _wrote(container, "/usr/local/bin/other")
    assert all(_wrote(container, f"{folder}/x") for folder in ("/cache/engine", "/tmp"))
    # what is compiled in the scratch folder can be run there
    words = "echo 'exit 0' > /tmp/made && chmod +x /tmp/made && /tmp/made"
    assert container.exec_run(["sh", "-c", words]).exit_code == 0


def _wrote(container, path: str) -> bool:
    return container.exec_run(["sh", "-c", f"echo x > {path}"]).exit_code == 0


def _make(volumes: list[dict], env: dict[str, str]) -> None:
    """The folders that the file says are to be there."""
    for volume in volumes:
        subprocess.run(["bash", "-ec", f'mkdir -p "{volume["source"]}"'], env=env, check=True)
