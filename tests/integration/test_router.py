"""The real router, with the command that exports give it, before two servers of each engine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from dflash_deploy.render.router import router
from tests.docker_engine import free_port
from tests.fakes.plans import plan

READ_ONLY = """\
mount --make-rprivate / && mount -o bind,remount,ro /
if touch /tmp/router-wrote; then rm /tmp/router-wrote; exit 9; fi
exec "$@"
"""
"""As in a container whose root is read only, and without even a scratch folder."""


def ask(port: int, path: str, body: dict | None = None) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body else None,
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def answers(port: int, path: str, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            ask(port, path)
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
        else:
            return True
    return False


@pytest.fixture
def started(tmp_path):
    running = []

    def start(argv):
        running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_requests_reach_every_replica_and_a_dead_one_none(engines, started, engine, tmp_path):
    plans = [plan(engine), plan(engine)]
    servers = [started([str(engines / each.argv[0]), *each.argv[1:]]) for each in plans]
    urls = tuple(each.base_url for each in plans)
    port, known = free_port(), router()
    argv = known.argv(urls, port, plans[0].health_path, 60)
    # its metrics port is fixed in a container, and taken on a machine that runs tests side by side
    own = [w if w != str(known.metrics_port) else str(free_port()) for w in argv[1:]]
    started(["unshare", "--mount", "sh", "-ec", READ_ONLY, "sh", sys.executable, *own])
    assert answers(port, known.ready_path)

    body = {"model": plans[0].served_names[0], "max_tokens": 8,
            "messages": [{"role": "user", "content": "Name the planets."}]}  # fmt: skip
    name = {"vllm": "vllm:spec_decode_num_drafts_total", "sglang": "sglang:spec_verify_calls_total"}

    def reached(port: int) -> bool:
        lines = ask(port, "/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name[engine])) > 0

    # it is ready as soon as it knows one replica to be, and finds the other a moment later
    until, number = time.monotonic() + 30, 0
    while number < 12 or not all(reached(each.port) for each in plans):
        assert time.monotonic() < until, "a replica that no request reached"
        body["messages"][0]["content"] = f"{number} " * 40
        assert json.loads(ask(port, "/v1/chat/completions", body))["usage"]["completion_tokens"]
        number += 1

    servers[0].kill()
    served = [json.loads(ask(port, "/v1/chat/completions", body)) for _ in range(4)]
    assert all(answer["usage"]["completion_tokens"] for answer in served)


def test_it_is_not_ready_before_a_replica_is(engines, started):
    """A service that sent it requests while its engines start would answer them all with 503."""
    replica = plan("vllm")
    port, known = free_port(), router()
    argv = known.argv((replica.base_url,), port, replica.health_path, 60)
    own = [w if w != str(known.metrics_port) else str(free_port()) for w in argv[1:]]
    started([sys.executable, *own])
    assert answers(port, "/health")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        ask(port, known.ready_path)

    started([str(engines / replica.argv[0]), *replica.argv[1:]])
    assert answers(port, known.ready_path)
