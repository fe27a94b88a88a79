"""`dflash top` on real processes: a terminal, a pipe, JSON, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from tests.integration.conftest import CommandLine
from tests.unit.measure.conftest import until_healthy


@pytest.fixture
def server(dflash: CommandLine, port: int):
    started = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--detach",
        env={"FAKE_ENGINE_ACCEPTANCE": "4"},
    )  # fmt: skip
    assert started.code == 0, started.err
    yield f"gpt-oss-20b-{port}"
    dflash.run("stop", "--all")


def ask(port: int, model: str = "gpt-oss-20b") -> None:
    import httpx

    body = {"model": model, "messages": [], "max_tokens": 64}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    assert httpx.post(url, json=body, trust_env=False).status_code == 200


def test_json_is_a_document_a_line_with_what_came_between(dflash, server, port):
    with dflash.start("top", "--json", "-n", "4", "-i", "1") as top:
        before = top.stdout.readline()
        ask(port)
        after, err = top.communicate(timeout=30)

    assert (top.returncode, err, after.count("\n")) == (0, "", 3)
    first, *_, last = (json.loads(line)["servers"][0] for line in (before + after).splitlines())
    assert (first["name"], first["state"]) == (server, "ready")
    assert first["numbers"]["acceptance_length"] is None
    assert last["numbers"]["acceptance_length"] == 4.0
    assert last["numbers"]["tokens_per_second"] > first["numbers"]["tokens_per_second"] == 0


def test_a_pipe_gets_plain_lines(dflash, server):
    shown = dflash.run("top", "-n", "2", "-i", "0.2")

    heading, *lines = shown.out.splitlines()
    assert heading.split()[:3] == ["TIME", "NAME", "ACCEPT"]
    assert [line.split()[1] for line in lines] == [server] * 2
    assert "\x1b" not in shown.out


def test_ctrl_c_is_the_usual_end(dflash, server):
    with dflash.start("top", "-i", "0.2") as top:
        assert server in (top.stdout.readline() + top.stdout.readline())
        top.send_signal(signal.SIGINT)
        _, err = top.communicate(timeout=10)

    assert (top.returncode, err) == (0, "")


def test_nothing_runs(dflash):
    shown = dflash.run("top", "-n", "1", "-i", "0.1")

    assert (shown.code, len(shown.out.splitlines())) == (0, 1)
    assert "no server runs" in shown.err
    (line,) = dflash.run("top", "--json", "-n", "1", "-i", "0.1").out.splitlines()
    assert json.loads(line)["servers"] == []


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_a_terminal_is_drawn_over_and_given_back(dflash, server, key):
    shown, code = on_terminal(dflash, key, until=server.encode())

    assert code == 0
    assert b"\x1b[?1049h" in shown  # another screen, and the user's own one again
    assert b"\x1b[?1049l" in shown
    assert b"q ends this" in shown
    assert b"Traceback" not in shown


def on_terminal(dflash: CommandLine, key: bytes, *, until: bytes) -> tuple[bytes, int]:
    master, slave = pty.openpty()
    top = dflash.start(
        "top", "-i", "0.2", stdin=slave, stdout=slave, stderr=slave, text=False,
        start_new_session=True, preexec_fn=_own_terminal, env={"TERM": "xterm", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(slave)
    shown, pressed, end = b"", False, time.monotonic() + 30
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            shown += chunk
        elif top.poll() is not None:
            break
        if until in shown and not pressed:
            pressed = bool(os.write(master, key))
    code = top.wait(10)
    os.close(master)
    return shown, code


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_in_a_pipe_it_ends_where_nothing_runs(dflash):
    ended = dflash.run("top")
    assert (ended.code, "no server runs" in ended.err) == (0, True)


def test_a_server_that_somebody_else_started_is_watched_by_its_url(dflash, engines, port):
    words = ("serve", "openai/gpt-oss-20b", "--host", "127.0.0.1", "--port", str(port))
    config = ("--speculative-config", '{"method": "dflash", "num_speculative_tokens": 7}')
    process = subprocess.Popen(
        [str(engines / "vllm"), *words, *config], stderr=subprocess.DEVNULL,
        env={**os.environ, "FAKE_ENGINE_ACCEPTANCE": "1", "FAKE_ENGINE_PHASE_DELAY": "0.001"},
    )  # fmt: skip
    until_healthy(f"http://127.0.0.1:{port}/health", process)
    url = f"http://me:secret@127.0.0.1:{port}/v1"
    with dflash.start("top", "--url", url, "--json", "-n", "3", "-i", "0.4") as top:
        before = top.stdout.readline()
        ask(port, "openai/gpt-oss-20b")
        after, err = top.communicate(timeout=30)
    assert (top.returncode, err) == (0, "")
    assert "secret" not in before + after
    last = json.loads(after.splitlines()[-1])["servers"][0]
    assert (last["name"], last["engine"]) == (f"127.0.0.1:{port}", "vllm")
    assert last["numbers"]["acceptance_length"] == 1.0
    assert last["state"] == "ready, speculation collapsed"
    process.kill()
    process.wait()
    nobody = dflash.run("top", "--url", url, "-n", "1")
    assert nobody.code == 7
    assert f"no server answers at http://127.0.0.1:{port}" in nobody.err
