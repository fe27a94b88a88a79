"""Commands as people paste them: from terminals, pages, scripts, units and manifests."""

from __future__ import annotations

import contextlib

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.manifest import pasted
from dflash_deploy.explain.report import reports
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan

OPTIONS = (
    "--speculative-config.method dflash --speculative-config.model z-lab/Qwen3-8B-DFlash-b16"
    " --speculative-config.num_speculative_tokens 15"
)
VLLM = f"vllm serve Qwen/Qwen3-8B {OPTIONS}"
CONFIG = '{"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 15}'
QUOTED = f"vllm serve Qwen/Qwen3-8B --speculative-config '{CONFIG}'"
BROKEN = QUOTED.replace(" --", " \\\n  --") + " \\\n  --max-num-seqs 16"
SGLANG = (
    "--model-path Qwen/Qwen3-8B --speculative-algorithm DFLASH"
    " --speculative-draft-model-path z-lab/Qwen3-8B-DFlash-b16"
)
LIST = str([*VLLM.split()]).replace("'", '"')
IMAGE = "vllm/vllm-openai:v0.33.0"
COMPOSE = f"""services:
  a:
    image: {IMAGE}
    ports: ["9000:8000"]
    environment: [HF_TOKEN]
    command: >
      --model Qwen/Qwen3-8B
      --speculative-config '{CONFIG}'
"""
KUBERNETES = f"""spec:
  containers:
    - name: a
      image: {IMAGE}
      command: ["vllm", "serve"]
      args: ["Qwen/Qwen3-8B", "--speculative-config", '{CONFIG}']
      env:
        - {{name: HF_TOKEN, valueFrom: {{secretKeyRef: {{name: a, key: b}}}}}}
"""
PASTED = (
    BROKEN.replace("\n", "\r\n"),
    BROKEN.replace("\n", "\r"),
    BROKEN.replace("\\\n", "\\  \n"),
    BROKEN.replace("\\\n", "`\n"),
    BROKEN.replace("\\\n", "^\n"),
    BROKEN.replace("}' \\", "}' \\  # the draft"),
    BROKEN.replace("\n  --max", "\n  # requests at once\n  --max"),
    "$ " + BROKEN.replace("\n", "\n> "),
    "(venv) me@box:~/x$ " + VLLM,
    "root@0a1b:/workspace# " + VLLM,
    "[me@node01 ~]$ " + VLLM,
    "me@mac ~ % " + VLLM,
    "\u279c  ~ git:(main) \u2717 " + VLLM,
    "\u276f " + VLLM,
    "12. " + VLLM,
    "- " + VLLM,
    "\ufeff" + VLLM.replace(" --", "\u200b --"),
    QUOTED.replace('"', "&quot;"),
    f"Then run `{VLLM}` and wait, it's slow.",
    f"(CUDA_VISIBLE_DEVICES=1 {VLLM})",
    f"for p in 1 2; do {VLLM}; done",
    f"env -u HF_HOME CUDA_VISIBLE_DEVICES=0 {VLLM}",
    f"sudo -E -u me {VLLM}",
    f"nohup {VLLM} &> vllm.log & disown",
    f"setsid {VLLM} > /dev/null 2>&1 < /dev/null &",
    f"tmux new-session -d -s a '{VLLM}'",
    f"tmux send-keys -t a '{VLLM}' Enter",
    f'screen -dmS a bash -c "{VLLM}"',
    f"ssh gpu1 '{VLLM}'",
    f"HF_TOKEN=$(cat ~/.token | head -1) {VLLM}",
    f"target=Qwen/Qwen3-8B\nvllm serve $target {OPTIONS}",
    f"vllm serve ${{MODEL:-Qwen/Qwen3-8B}} {OPTIONS} --port ${{PORT:=9000}}",
    f"foo=1 {VLLM}",
    f"python3.12 -u -m vllm.entrypoints.openai.api_server --model {VLLM[11:]}",
    f"python /opt/vllm/entrypoints/openai/api_server.py --model {VLLM[11:]}",
    f"python -m vllm.entrypoints.cli.main {VLLM[5:]}",
    f"torchrun --nproc_per_node 1 -m vllm.entrypoints.openai.api_server --model {VLLM[11:]}",
    f"ExecStart=/usr/bin/env HF_HOME=/x /opt/venv/bin/{VLLM}",
    f"Environment=CUDA_VISIBLE_DEVICES=0\nExecStart=/opt/venv/bin/{VLLM}",
    f"nerdctl run --gpus all -p 127.0.0.1:8000:8000 {IMAGE} --model {VLLM[11:]}",
    f"docker exec -it a {VLLM}",
    f"docker compose run --rm a {VLLM}",
    f"apptainer exec --nv a.sif {VLLM}",
    f"CMD {LIST}",
    f"subprocess.run({LIST}, check=True)",
    COMPOSE,
    f"```yaml\n{COMPOSE}```",
    KUBERNETES,
    f"        args: [serve, Qwen/Qwen3-8B, --speculative-config, '{CONFIG}']",
    f"image: lmsysorg/sglang:v0.5.23\nentrypoint: python3 -m sglang.launch_server\ncommand: {SGLANG}",
)  # fmt: skip


def reported(registry, text: str):
    return reports(pasted(text), registry, None, cards("H100", registry.gpus))


@pytest.mark.parametrize("text", PASTED)
def test_it_ends_in_a_right_command(shipped, text: str) -> None:
    (report,) = reported(shipped, text)
    assert report.target == "Qwen/Qwen3-8B"
    assert isinstance(report.right, Plan), report.refused
    assert report.right.block_size == 16
    assert [item for item in report.findings if item.verdict == "wrong"] == []


def test_what_a_manifest_says_of_its_container_counts(shipped) -> None:
    (compose,) = reported(shipped, COMPOSE)
    said = {item.part: item for item in compose.findings}
    assert "plan qwen3-8b --engine vllm --format compose" in said["the file"].message
    assert said["-e HF_TOKEN"].verdict == "fine"
    assert compose.right.port == 9000
    (kubernetes,) = reported(shipped, KUBERNETES)
    assert any("--format k8s" in item.message for item in kubernetes.findings)
    assert not any(item.part.startswith("-p ") for item in kubernetes.findings)


def test_a_variable_of_the_text_is_none_of_the_servers(shipped) -> None:
    (report,) = reported(shipped, f"model=Qwen/Qwen3-8B\nno_proxy=a HF_HOME=/x {VLLM}")
    assert {"no_proxy", "HF_HOME"} <= report.right.env.keys()
    assert "model" not in report.right.env


@pytest.mark.parametrize("text", ["vllm serve $MODEL --port 1", "sglang serve --model-path ${M}"])
def test_a_model_that_only_a_shell_knows_is_told(shipped, text: str) -> None:
    (report,) = reported(shipped, text)
    assert "is filled in by a shell" in report.refused
    assert report.right.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]\ncommand: *a",
        "command: {}\nargs: 3",
        "command: 'open",
        "args: [vllm\n",
        "command: [1, null]\nimage: []",
        "command:\n" + "- [" * 3000,
        "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(50)) + "command: [ls]",
    ],
)
def test_a_file_that_is_none_is_no_crash(shipped, text: str) -> None:
    with contextlib.suppress(UsageError):
        assert reported(shipped, text) == []
