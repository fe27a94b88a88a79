"""Plans in every exported form, and the argv that each form's own reader makes of the text."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from dflash_deploy.explain.container import container as read_docker
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import Plan, Secret, make_plan
from dflash_deploy.registry import load
from dflash_deploy.render.exports import export
from dflash_deploy.request import Request

REGISTRY = load(user=False)
PAIRS = {
    "gpt-oss-20b-vllm": ("gpt-oss-20b", "vllm", "H100"),
    "gemma-4-31b-sglang": ("gemma-4-31b", "sglang", "A100:2"),
    "qwen3.5-4b-vllm": ("qwen3.5-4b", "vllm", None),
}
USER = "1000:1000"
INSTALL = {
    "systemd-analyze": "apt-get install systemd",
    "promtool": "apt-get install prometheus",
    "docker-compose": "pip install -e '.[dev]'",
    "kubernetes-validate": "pip install -e '.[dev]'",
    "shellcheck": "pip install -e '.[dev]'",
}


def planned(model: str, engine: str, gpu: str | None, **options: object) -> Plan:
    cards = parse(gpu, REGISTRY.gpus) if gpu else Hardware()
    return make_plan(REGISTRY, Request(model=model, engine=engine, **options), cards)


def odd(engine: str = "vllm") -> Plan:
    """Words that shells, compose, Kubernetes and systemd would each like to read as more."""
    plan = planned("gpt-oss-20b", engine, "H100")
    words = ("--x", "$HOME ${A} $(id) `id` $$", "%h %% 100%", "a\"b'c\\n\\\\", "", " ;", "ü\n#")
    env = {**plan.env, "ODD": "$HOME %h \"q\" 'q' \\ $$(id)"}
    return msgspec.structs.replace(plan, argv=(*plan.argv, *words), env=env)


def with_key(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, secrets=(Secret("VLLM_API_KEY", "DFLASH_API_KEY"),))


def text(form: str, plan: Plan) -> str:
    return export(form, plan, REGISTRY.engines[plan.engine], USER).text


def forms(plan: Plan) -> list[str]:
    return [*commands(plan), f"{plan.engine}-config"]


def commands(plan: Plan) -> list[str]:
    """The forms that hold the whole command: SkyPilot's is for one kind of card."""
    return [form for form in ARGV if form != "skypilot" or plan.hardware.cards]


def ran(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment the tests run in, else of PATH; a missing one is an error."""
    beside = str(Path(sys.executable).parent)
    name = str(argv[0])
    found = shutil.which(name, path=os.pathsep.join([beside, os.environ["PATH"]]))
    if found is None:
        pytest.fail(f"{name} is missing: {INSTALL[name]}")
    return subprocess.run(
        [found, *map(str, argv[1:])], capture_output=True, text=True, check=False,
        env=os.environ | env,
    )  # fmt: skip


def called(script: str, program: str, folder: Path, **env: str) -> list[str]:
    """The words that a shell hands to `program` when it runs this script."""
    stand_in, record = folder / program, folder / f"{program}.words"
    stand_in.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >{shlex.quote(str(record))}\n")
    stand_in.chmod(0o755)
    mine = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), **env}
    subprocess.run(["/bin/bash", "-c", script], env=mine, check=True, capture_output=True)
    return record.read_text().split("\0")[:-1]


def docker_argv(written: str, folder: Path) -> list[str]:
    box = read_docker(tuple(called(written, "docker", folder)[1:]))
    return [box.entrypoint, *box.words]


def composed(written: str, folder: Path, **env: str) -> dict:
    """The one service, as the real compose resolves it."""
    file = folder / "compose.yaml"
    file.write_text(written)
    done = ran("docker-compose", "-f", file, "config", "--format", "json", **env)
    assert done.returncode == 0, done.stderr
    (service,) = json.loads(done.stdout)["services"].values()
    return service


def compose_argv(written: str, folder: Path) -> list[str]:
    # what it prints can be read by it again: dollar signs stay doubled
    return [word.replace("$$", "$") for word in composed(written, folder)["entrypoint"]]


def kubernetes(written: str) -> dict[str, dict]:
    return {item["kind"]: item for item in yaml.safe_load_all(written)}


def k8s_argv(written: str, folder: Path) -> list[str]:
    (server,) = kubernetes(written)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return [word.replace("$$", "$") for word in server["command"]]


def kserve_argv(written: str, folder: Path) -> list[str]:
    (server,) = kubernetes(written)["InferenceService"]["spec"]["predictor"]["containers"]
    return [word.replace("$$", "$") for word in server["command"]]


def systemd_lines(written: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in written.splitlines() if line.startswith(f"{key}=")]


def systemd_words(line: str) -> list[str]:
    """As systemd.service(5) reads a command: quotes, then escapes, specifiers and variables."""
    meant = {"n": "\n"}
    found = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line, re.DOTALL):
        word = bare or re.sub(r"\\(.)", lambda m: meant.get(m[1], m[1]), quoted)
        assert not re.search(r"(?<!%)(%%)*%(?!%)", word), word
        found.append(word.replace("%%", "%").replace("$$", "$"))
    return found


def systemd_argv(written: str, folder: Path) -> list[str]:
    (line,) = systemd_lines(written, "ExecStart")
    env, *words = systemd_words(line)
    assert env == "/usr/bin/env"
    return words


def slurm_argv(written: str, folder: Path) -> list[str]:
    given = {"SLURM_CPUS_PER_TASK": "8", "DFLASH_API_KEY": "x"}
    tasks, *words = called(written, "srun", folder, **given)
    assert tasks == "--ntasks=1"
    return words


def skypilot_argv(written: str, folder: Path, **env: str) -> list[str]:
    script = yaml.safe_load(written)["run"]
    program = re.findall(r"^exec (\S+)", script, re.MULTILINE)[0]
    return [program, *called(script, program, folder, **{"VLLM_API_KEY": "x"} | env)]


ARGV = {
    "docker": docker_argv,
    "compose": compose_argv,
    "k8s": k8s_argv,
    "kserve": kserve_argv,
    "systemd": systemd_argv,
    "slurm": slurm_argv,
    "skypilot": skypilot_argv,
}
"""How each form's argv is read back."""


def config_argv(written: str) -> list[str]:
    """What vLLM and SGLang make of their file: lists are spread, objects are JSON, true is bare."""
    words = []
    for key, value in yaml.safe_load(written).items():
        words += [] if key == "model" else [f"--{key}"]
        if isinstance(value, dict):
            words.append(json.dumps(value))
        elif value is not True:
            words += [str(item) for item in (value if isinstance(value, list) else [value])]
    return words
