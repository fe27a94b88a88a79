"""A real engine on a real card: `pytest -m gpu tests/gpu`, with vllm or sglang on PATH.

Results worth keeping go to `docs/evidence/` and, as evidence, into the registry.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.gpu
START = 900


@pytest.mark.timeout(START + 60)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_demo_pair_speculates_and_nothing_outlives_the_command(engine, demo_target):
    if shutil.which(engine) is None:
        pytest.fail(f"{engine} is not on PATH")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = ["serve", "smollm2-135m", "--engine", engine, "--weights", "q4_1", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dflash_deploy", *argv, "--port", str(port), "--timeout", str(START)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert any("ready after" in line for line in process.stderr)
    tree = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    report = json.loads(process.stdout.read())
    assert report["verdict"]["state"] == "fine"
    assert report["acceptance"]["length"] > 1.5
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert not alive
