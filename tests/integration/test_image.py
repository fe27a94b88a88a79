"""The Dockerfile, built and run by a real Docker daemon on stand-ins for its base images."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from dflash_deploy.registry import load
from tests.docker_engine import ROOT, free_port

pytestmark = pytest.mark.timeout(600)
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ARGUMENTS = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
SOMEBODY = "12345:12345"
EVERY_SECOND = {"interval": 1_000_000_000}


def test_it_is_clean():
    found = subprocess.run(
        [str(Path(sys.executable).parent / "hadolint"), str(ROOT / "Dockerfile")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (0, "")


def test_its_engines_are_the_newest_releases():
    engines = load(user=False).engines
    for name in ("vllm", "sglang"):
        newest = engines[name].releases[-1].version
        assert engines[name].images[0].reference.format(version=newest) in DOCKERFILE


def test_the_readme_builds_on_the_same():
    sglang = re.search(r"lmsysorg/sglang:\S+", DOCKERFILE)
    assert sglang is not None
    assert sglang[0] in (ROOT / "README.md").read_text()


def downloaded(folder: Path, *wanted: str) -> Path:
    """What pip needs for one image: builds reach no index."""
    index = os.environ.get("TORCH_INDEX")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "-d", str(folder),
         *(["--extra-index-url", index] if index else []), *wanted],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory) -> Path:
    return downloaded(tmp_path_factory.mktemp("wheels"), str(ROOT), "hatchling>=1.27")


@pytest.fixture(scope="session")
def build(docker_engine, wheelhouse):
    """Build a target of the Dockerfile; BuildKit leaves out the stages it does not need."""

    def built(target: str, **arguments: str) -> str:
        if "SLIM" not in arguments:
            arguments["SLIM"] = docker_engine.give("localhost/slim:small", wheels=wheelhouse)
        tag = f"dflash-{target}"
        words = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        done = subprocess.run(
            ["/usr/bin/docker", "build", "--quiet", f"--target={target}", f"--tag={tag}", *words, "."],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"DOCKER_BUILDKIT": "1", "DOCKER_HOST": docker_engine.host},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return tag

    return built


@pytest.fixture
def run(docker_engine, tmp_path):
    started = []

    def ran(image: str, *words: str, home: Path | None = None, **options):
        for folder in ("home", "hub"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder).chmod(0o777)
        volumes = {
            str(home or tmp_path / "home"): {"bind": "/cache/home", "mode": "rw"},
            str(tmp_path / "hub"): {"bind": "/cache/huggingface", "mode": "rw"},
        }
        container = docker_engine.client.containers.run(
            image, list(words), user=SOMEBODY, detach=True, volumes=volumes,
            healthcheck=EVERY_SECOND, **options,
        )  # fmt: skip
        started.append(container)
        return container

    yield ran
    for container in started:
        container.remove(force=True)


def ended(container) -> tuple[int, str]:
    code = container.wait(timeout=120)["StatusCode"]
    return code, container.logs().decode()


def becomes_healthy(container, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        container.reload()
        state = container.attrs["State"]
        if state["Status"] == "exited":
            break
        if state["Health"]["Status"] == "healthy":
            return
        time.sleep(0.5)
    pytest.fail(f"{state}\n{container.logs().decode()}")


def ask(port: int, path: str, body: dict | None = None) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body else None,
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    ("engine", "port"), [("vllm", 8000), ("sglang", 30000)], ids=["vllm", "sglang"]
)
def test_an_engines_image_serves_as_anybody(docker_engine, wheelhouse, build, run, engine, port):
    known = load(user=False).engines[engine]
    base = known.images[0].reference.format(version=known.releases[-1].version)
    docker_engine.give(base, engine=engine, wheels=wheelhouse)
    image = build("engine", BASE=base)
    outside = free_port()

    container = run(
        image, "serve", "gpt-oss-20b", "--engine", engine,
        ports={port: ("127.0.0.1", outside)}, environment={"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip

    becomes_healthy(container)
    assert ask(outside, "/v1/models")["data"][0]["id"] == "openai/gpt-oss-20b"
    said = container.logs().decode()
    assert "acceptance length" in said
    assert "ready after" in said
    container.stop(timeout=30)
    container.reload()
    assert container.attrs["State"]["ExitCode"] not in (137, 143)  # it ended by itself


def test_two_that_share_their_caches_know_themselves_alone(docker_engine, wheelhouse, build, run):
    base = ARGUMENTS["BASE"]
    docker_engine.give(base, engine="vllm", wheels=wheelhouse)
    image = build("engine", BASE=base)
    offline = {"HF_HUB_OFFLINE": "1"}
    containers = [
        run(image, "serve", "gpt-oss-20b", "--engine", "vllm", "--port", port, environment=offline)
        for port in ("8000", "8001")
    ]

    for container in containers:
        becomes_healthy(container, 30)
    for container, port in zip(containers, (8000, 8001), strict=True):
        code, said = container.exec_run(["dflash", "ps", "--json"], user=SOMEBODY)
        assert (code, [record["port"] for record in json.loads(said)]) == (0, [port])


def test_the_engines_own_python_is_not_touched(docker_engine, wheelhouse, build, run):
    base = ARGUMENTS["BASE"]
    docker_engine.give(base, engine="vllm", wheels=wheelhouse)
    container = run(
        build("engine", BASE=base), "-I", "-c", "import dflash_deploy", entrypoint=["python3"]
    )
    code, said = ended(container)
    assert code == 1
    assert "No module named" in said


def test_the_cpu_image_serves_the_demo_pair_for_real(
    docker_engine, build, run, demo_target, tmp_path, tmp_path_factory
):
    wheels = downloaded(tmp_path_factory.mktemp("all"), f"{ROOT}[local]", "hatchling>=1.27")
    slim = docker_engine.give(ARGUMENTS["SLIM"], wheels=wheels)
    home = tmp_path / "home"
    weights = home / ".cache" / "dflash" / "weights"
    weights.parent.mkdir(parents=True)
    for folder in (home, home / ".cache", weights.parent):
        folder.chmod(0o777)
    subprocess.run(["cp", "-r", str(demo_target.parent), str(weights)], check=True)
    subprocess.run(["chmod", "-R", "a+rwX", str(weights)], check=True)
    outside = free_port()

    container = run(
        build("cpu", SLIM=slim), "serve", "smollm2-135m", "--weights", "q4_1",
        ports={8000: ("127.0.0.1", outside)}, environment={"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip

    becomes_healthy(container, 240)
    body = {"model": "smollm2-135m", "messages": [{"role": "user", "content": "Name three fruits."}],
            "max_tokens": 48, "temperature": 0}  # fmt: skip
    answer = ask(outside, "/v1/chat/completions", body)
    assert answer["metrics"]["speculative_decoding"]["mean_acceptance_length"] > 1.3
