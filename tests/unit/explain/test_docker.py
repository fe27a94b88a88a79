"""Docker's own options, and the right `docker run`."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

from dflash_deploy.explain.container import container
from dflash_deploy.explain.docker_right import is_own_image
from dflash_deploy.plan import Plan
from tests.unit.explain.test_flags import PAIR, SGLANG

HUB = "-v ~/.cache/huggingface:/root/.cache/huggingface"
MODEL = PAIR.removeprefix("vllm serve ").strip()
SERVED = SGLANG.strip()
SECRET = "4711secret4711"


def vllm(options: str, further: str = "", image: str = "vllm/vllm-openai:v0.33.0") -> str:
    return f"docker run {options} {image} {MODEL} {further}"


def sglang(options: str, further: str = "") -> str:
    return f"docker run {options} lmsysorg/sglang:v0.5.23 {SERVED} {further}"


@pytest.mark.parametrize(
    ("text", "part", "verdict"),
    [
        (vllm(""), "--gpus all", "missing"),
        (vllm("--gpus all"), "--gpus all", "fine"),
        (vllm("--gpus=1", "-tp 2"), "--gpus 1", "wrong"),
        (vllm("--gpus 2", "-tp 2"), "--gpus 2", "fine"),
        (vllm("--gpus device=0,1", "-tp 2"), "--gpus device=0,1", "wrong"),
        (vllm("--gpus '\"device=0,1\"'", "-tp 2"), '--gpus "device=0,1"', "fine"),
        (vllm("--gpus '\"device=0,1\"'", "-tp 4"), '--gpus "device=0,1"', "wrong"),
        (vllm("--runtime nvidia"), "--runtime nvidia", "note"),
        (vllm("--gpu all"), "--gpu", "wrong"),
        (vllm("", "-tp 2"), "--ipc=host", "missing"),
        (vllm("--ipc=host", "-tp 2"), "--ipc host", "fine"),
        (vllm("--shm-size 16g", "-tp 2"), "--shm-size 16g", "fine"),
        (vllm(""), "-p 127.0.0.1:8000:8000", "missing"),
        (vllm("", "--port 9000"), "-p 127.0.0.1:9000:9000", "missing"),
        (vllm("-p 8000:8000"), "-p 8000:8000", "note"),
        (vllm("-p 8000:8000 -e VLLM_API_KEY"), "-p 8000:8000", "fine"),
        (vllm("-p 127.0.0.1:7000:8000"), "-p 127.0.0.1:7000:8000", "fine"),
        (vllm("-p 8000:80"), "-p 8000:80", "wrong"),
        (vllm("-p 127.0.0.1:1:8000 -p 9:9"), "-p 9:9", "fine"),
        (vllm("--network host -p 8000:8000"), "-p 8000:8000", "unneeded"),
        (vllm("--net=host"), "--net host", "note"),
        (vllm("", "--host 0.0.0.0"), "--host 0.0.0.0", "fine"),
        (vllm("--network host", "--host 0.0.0.0"), "--host 0.0.0.0", "note"),
        (sglang("-p 30000:30000"), "--host 0.0.0.0", "missing"),
        (sglang("-p 30000:30000", "--host 0.0.0.0"), "--host 0.0.0.0", "fine"),
        (vllm(""), "-v ~/.cache/huggingface:/root/.cache/huggingface", "missing"),
        (vllm(HUB), HUB, "fine"),
        (vllm("--mount type=bind,src=/hub,dst=/root/.cache"),
         "--mount type=bind,src=/hub,dst=/root/.cache", "fine"),
        (vllm(f"-e HF_HOME=/hub {HUB}"), "-v ~/.cache/huggingface:/hub", "missing"),
        (vllm("-v /var/run/docker.sock:/var/run/docker.sock"),
         "-v /var/run/docker.sock:/var/run/docker.sock", "wrong"),
        (vllm("-e HF_TOKEN"), "-e HF_TOKEN", "fine"),
        (vllm(f"-e HF_TOKEN={SECRET}"), "HF_TOKEN=...", "wrong"),
        (vllm("--env-file ./env"), "--env-file ./env", "note"),
        (vllm("--rm --restart always"), "--restart always", "wrong"),
        (vllm("--privileged"), "--privileged", "unneeded"),
        (vllm("", image="mirror:5000/vllm/vllm-openai:v0.33.0"),
         "mirror:5000/vllm/vllm-openai:v0.33.0", "note"),
        ("docker run vllm/vllm-openai:v0.33.0 meta-llama/Llama-3.1-8B-Instruct",
         "-e HF_TOKEN", "missing"),
        ("docker run vllm/vllm-openai:v0.33.0 " + MODEL.replace("Qwen/Qwen3-8B", "/models/q8", 1),
         "/models/q8", "wrong"),
        ("docker run -v /data:/models vllm/vllm-openai:v0.33.0 "
         + MODEL.replace("Qwen/Qwen3-8B", "/models/q8", 1), "-v /data:/models", "fine"),
    ],
)  # fmt: skip
def test_an_option(said, text: str, part: str, verdict: str) -> None:
    assert said(text)[part] == verdict


def right(explain, text: str) -> list[str]:
    report = explain(text)
    assert isinstance(report.right, Plan), report.right
    made, run = report.right_text.split(" && \\\n", 1)
    assert made.startswith("mkdir -p ")
    return shlex.split(run.replace("\\\n", " "))


def after(words: list[str], option: str) -> list[str]:
    return [word for said, word in pairwise(words) if said == option]


def test_docker_gets_docker_back(explain) -> None:
    words = right(explain, vllm(f"-it --rm --gpus all -p 9000:8000 {HUB}", "-tp 2"))
    assert words[:2] == ["docker", "run"]
    assert after(words, "--gpus") == ["2"]
    assert after(words, "--publish") == ["127.0.0.1:9000:9000"]
    image = words.index("vllm/vllm-openai:v0.33.0")
    assert words[image - 2 : image] == ["--entrypoint", "vllm"]
    assert words[image + 1 : image + 3] == ["serve", "Qwen/Qwen3-8B"]
    assert "/root/.cache/huggingface" not in " ".join(words)


def test_what_was_decided_stays(explain) -> None:
    words = right(explain, vllm(
        "--name mine --gpus '\"device=2,3\"' -p 0.0.0.0:9000:8000 -e NCCL_DEBUG=INFO -e WANDB"
        " -v /data:/data:ro --ulimit memlock=-1 --network mine --env-file ./env",
        "-tp 2", "docker.io/vllm/vllm-openai:v0.33.0-cu129"))  # fmt: skip
    for option, value in (
        ("--name", "mine"), ("--gpus", '"device=2,3"'), ("--publish", "0.0.0.0:9000:9000"),
        ("--volume", "/data:/data:ro"), ("--ulimit", "memlock=-1"), ("--network", "mine"),
        ("--env-file", "./env"), ("--env", "NCCL_DEBUG=INFO"), ("--env", "WANDB"),
    ):  # fmt: skip
        assert value in after(words, option), option
    assert "docker.io/vllm/vllm-openai:v0.33.0-cu129" in words


@pytest.mark.parametrize(
    "options",
    [f"-e HF_TOKEN={SECRET}", f"-e VLLM_API_KEY={SECRET}", f"--env-file hf_{SECRET}",
     f"-v http://me:{SECRET}@h:/x", f"--name hf_{SECRET}",
     f"--log-opt splunk-token={SECRET}", f"--mount type=volume,dst=/x,volume-opt=password={SECRET}"],
)  # fmt: skip
def test_no_secret_is_said_again(explain, options: str) -> None:
    report = explain(vllm(options))
    assert SECRET not in repr((report.findings, report.right_text, report.refused))


def test_what_endangers_the_machine_goes(explain) -> None:
    words = right(explain, vllm(
        "--privileged --pid host --cap-add ALL -v /:/host"
        " -v /var/run/docker.sock:/var/run/docker.sock --security-opt seccomp=unconfined"))  # fmt: skip
    text = " ".join(words)
    for gone in ("--privileged", "--pid", "--cap-add", "/:/host", "docker.sock", "unconfined"):
        assert gone not in text


def test_the_key_that_sglang_cannot_take_in_a_container(explain) -> None:
    report = explain(sglang("-p 1:30000", f"--host 0.0.0.0 --api-key {SECRET}"))
    (key,) = [item for item in report.findings if item.part == "--api-key ..."]
    assert "a proxy in front" in key.message
    assert SECRET not in report.right_text


def test_a_key_that_vllm_takes_by_name(explain) -> None:
    text = explain(vllm("-e VLLM_API_KEY")).right_text
    assert 'VLLM_API_KEY="${DFLASH_API_KEY:?}" docker run' in text


def test_a_folder_stays_where_it_is_mounted(explain) -> None:
    text = "docker run --gpus all -v /data:/models:ro vllm/vllm-openai:v0.33.0 "
    words = right(explain, text + MODEL.replace("Qwen/Qwen3-8B", "/models/q8", 1))
    assert "/data:/models:ro" in after(words, "--volume")
    assert words[words.index("serve") + 1] == "/models/q8"
    assert "/models/q8:/models/q8:ro" not in words


def test_the_model_runner_gets_docker_too(explain) -> None:
    report = explain("docker model run hf.co/z-lab/gpt-oss-20b-DFlash")
    assert "docker run --detach" in report.right_text
    demo = explain("docker model run hf.co/HuggingFaceTB/SmolLM2-135M-Instruct")
    assert "dflash_deploy.server" in demo.right_text


@pytest.mark.parametrize(
    ("image", "own"),
    [
        ("vllm/vllm-openai:v0.33.0", True),
        ("vllm/vllm-openai:v0.33.0-cu129", True),
        ("mirror.example/vllm/vllm-openai:v0.33.0", True),
        ("vllm/vllm-openai:v0.32.0", False),
        ("vllm/vllm-openai", False),
        ("me/vllm:v0.33.0", False),
    ],
)
def test_whose_image_it_is(shipped, image: str, own: bool) -> None:
    found = container((image,))
    assert found is not None
    assert is_own_image(found, shipped.engines["vllm"], "0.33.0") is own


def test_what_else_a_shell_runs_in_it_is_told_and_no_word_of_it(explain) -> None:
    report = explain(
        "docker run vllm/vllm-openai:v0.33.0 bash -c"
        f" 'pip install -U transformers && hf login --token {SECRET} && vllm serve {MODEL}'"
    )
    parts = [item.part for item in report.findings if item.message.startswith("runs in each new")]
    assert parts == ["pip ...", "hf ..."]
    assert isinstance(report.right, Plan)


def test_cards_by_device(said) -> None:
    assert said(vllm("--device nvidia.com/gpu=all"))["--device nvidia.com/gpu=all"] == "fine"


@pytest.mark.parametrize(
    ("said_so", "written"),
    [
        ("~/models:/m", '"$HOME/models:/m"'),
        ("$HOME/models:/m", '"$HOME/models:/m"'),
        ("${DATA}/x:/m", '"${DATA}/x:/m"'),
        ("$(pwd)/x:/m", '"$PWD/x:/m"'),
        ("/a b:/m", "'/a b:/m'"),
        ("$(id)/x:/m", "'$(id)/x:/m'"),
        ("$A`id`:/m", "'$A`id`:/m'"),
    ],
)
def test_a_shell_fills_in_folders_and_runs_nothing(explain, said_so: str, written: str) -> None:
    report = explain(vllm(f"-v '{said_so}'"))
    assert f"--volume {written} \\\n" in report.right_text


def test_the_servers_own_port_among_several(explain) -> None:
    report = explain(vllm("-p 9090:9090 -p 10.0.0.5:7000:8000"))
    assert (report.right.host, report.right.port) == ("10.0.0.5", 7000)
