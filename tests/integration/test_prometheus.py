"""A real Prometheus scrapes servers of every engine with the rules of their plans; each panel shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.plans import free_port
from tests.integration.conftest import CommandLine

ENGINES = {"vllm": "gpt-oss-20b", "sglang": "qwen3-8b", "transformers": "smollm2-135m"}
SERVED = {
    "vllm": "openai/gpt-oss-20b",
    "sglang": "Qwen/Qwen3-8B",
    "transformers": "HuggingFaceTB/SmolLM2-135M-Instruct",
}
UNSEEN = {
    "sglang": {"acceptance_by_position"},
    "transformers": {"kv_usage", "acceptance_length_on_record"},
}
"""What an engine does not count, and the demo pair has no record of."""


@pytest.fixture
def prometheus() -> str:
    found = shutil.which("prometheus")
    if found is None:
        pytest.fail("prometheus is missing: apt-get install prometheus")
    return found


@contextmanager
def embedded() -> Iterator[int]:
    """The embedded server's own metrics, of a request, behind a port: its model is another test's."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from dflash_deploy.server.metrics import Metrics
    from dflash_deploy.server.sequence import Report
    from dflash_deploy.speculative.types import Step

    metrics = Metrics(SERVED["transformers"], 16)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            for _ in range(5):
                metrics.stepped(Step([1, 2, 3, 4], drafted=15, accepted=3), 4)
            metrics.finished(Report("length", 3, 20, 75, 15, (0, 0, 0, 5), 0.2, 0.8))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(metrics.render())

        def log_message(self, *_: object) -> None:
            """Not a test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def targets(dflash: CommandLine) -> Iterator[dict[str, int]]:
    """The port of a server of each engine."""
    with ExitStack() as stack:
        ports = {"transformers": stack.enter_context(embedded())}
        for engine in ("vllm", "sglang"):
            ports[engine] = free_port()
            words = ("--engine", engine, "--port", str(ports[engine]), "--detach")
            started = dflash.run(
                "serve", ENGINES[engine], *words, env={"FAKE_ENGINE_ACCEPTANCE": "4"}
            )
            assert started.code == 0, started.err
        yield ports
        dflash.run("stop", "--all")


def written(dflash: CommandLine, folder: Path, ports: dict[str, int]) -> Path:
    for engine, model in ENGINES.items():
        made = dflash.run("plan", model, "--engine", engine, "--format", "prometheus")
        assert made.code == 0, made.err
        # five minutes are five seconds here
        (folder / f"{engine}.yml").write_text(made.out.replace("[5m]", "[5s]"))
    addresses = [f"127.0.0.1:{port}" for port in ports.values()]
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [f"{engine}.yml" for engine in ENGINES],
        "scrape_configs": [{"job_name": "dflash", "static_configs": [{"targets": addresses}]}],
    }))  # fmt: skip
    return config


@contextmanager
def running(program: str, config: Path, folder: Path) -> Iterator[httpx.Client]:
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait(20)


def results(client: httpx.Client, query: str) -> list[dict]:
    try:
        answer = client.get("/api/v1/query", params={"query": query})
    except httpx.HTTPError:
        return []
    return answer.json()["data"]["result"] if answer.status_code == 200 else []


def panels(dflash: CommandLine) -> list[str]:
    """The dashboard's queries: it is the same for every engine."""
    shown = json.loads(dflash.run("plan", "smollm2-135m", "--format", "grafana").out)
    return [target["expr"] for panel in shown["panels"] for target in panel["targets"]]


def asked_of(queries: list[str], model: str) -> list[str]:
    return [q.replace("$model", model).replace("$instance", ".*") for q in queries]


def test_every_panel_has_data_of_every_engine(dflash, targets, prometheus, tmp_path):
    queries = panels(dflash)
    wanted = [
        (engine, query)
        for engine, model in SERVED.items()
        for query in asked_of(queries, re.escape(model).replace("\\", "\\\\"))
        if not any(name in query for name in UNSEEN.get(engine, ()))
    ]
    with running(prometheus, written(dflash, tmp_path, targets), tmp_path) as client:
        missing = wanted
        end = time.monotonic() + 60
        while missing and time.monotonic() < end:
            for engine in ("vllm", "sglang"):
                ask(targets[engine], SERVED[engine])
            time.sleep(0.3)
            missing = [(engine, query) for engine, query in missing if not shows(client, query)]
        lengths = {
            each["metric"]["engine"]: float(each["value"][1])
            for each in results(client, "dflash:acceptance_length")
        }

    assert missing == [], (tmp_path / "log").read_text()[-3000:]
    assert lengths == pytest.approx(dict.fromkeys(ENGINES, 4.0), rel=0.05)


def shows(client: httpx.Client, query: str) -> bool:
    return any(each["value"][1] != "NaN" for each in results(client, query))


def ask(port: int, model: str) -> None:
    body = {"model": model, "messages": [], "max_tokens": 64}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    assert httpx.post(url, json=body, trust_env=False).status_code == 200
