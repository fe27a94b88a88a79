"""`dflash chat`: with a server it starts, and with one that runs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time

import pytest

from tests.integration.test_cli_serve import gone, wait_for


@pytest.fixture
def server(dflash, port):
    process = dflash.start("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port))
    wait_for("ready after", process)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=15)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_one_question_to_a_model_starts_it_answers_and_ends_it(dflash, port, tmp_path, engine):
    pids = tmp_path / "pids"
    ended = dflash.run(
        "chat", "gpt-oss-20b", "--engine", engine, "--port", str(port), "--ask", "Hello?",
        env={"FAKE_ENGINE_PIDS": str(pids), "FAKE_ENGINE_WORKERS": "1"},
    )  # fmt: skip
    assert ended.code == 0
    assert ended.out.strip()
    assert "acceptance length 3.0" in ended.err.split("]")[-2]
    assert gone([int(line) for line in pids.read_text().split()])


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_a_url_is_a_server_with_or_without_v1(dflash, server, suffix):
    ended = dflash.run("chat", server + suffix, "--ask", "Hello?")
    assert ended.code == 0
    assert ended.out.strip()


def test_questions_come_from_a_pipe_until_its_end(dflash, server):
    process = dflash.start("chat", server, stdin=subprocess.PIPE)
    out, err = process.communicate("One?\n\nTwo?\n", timeout=30)
    assert process.returncode == 0
    assert err.count(" tokens, ") == 2
    assert "> " not in err
    assert out.strip()


def test_nobody_at_the_url_is_one_line_and_a_hint(dflash):
    ended = dflash.run("chat", "http://127.0.0.1:9", "--ask", "Hello?")
    assert ended.code == 7
    assert "no server answers" in ended.err
    assert "hint:" in ended.err
    assert "Traceback" not in ended.err


def test_a_name_the_server_does_not_have_is_told(dflash, server):
    ended = dflash.run("chat", server, "--served-name", "other/model", "--ask", "Hello?")
    assert ended.code == 2
    assert "other/model" in ended.err


def test_ctrl_c_at_the_prompt_ends_the_engine_and_exits_130(dflash, port, tmp_path):
    pids = tmp_path / "pids"
    master, slave = pty.openpty()
    process = dflash.start(
        "chat", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), stdin=slave,
        env={"FAKE_ENGINE_PIDS": str(pids)},
    )  # fmt: skip
    wait_for("ready after", process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=15)
    os.close(master)
    os.close(slave)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert gone([int(line) for line in pids.read_text().split()])


@pytest.mark.parametrize(
    ("served", "key"),
    [
        ("moonshotai/Kimi-K2.5", "thinking"),
        ("qwen3-8b", "enable_thinking"),
        ("meta-llama/Llama-3.1-8B-Instruct", None),
        ("somebody/else", "enable_thinking"),
    ],
)
def test_thinking_at_a_url_is_switched_as_the_entry_says(served, key):
    from dflash_deploy.cli._conversation import thinking_key_of

    assert thinking_key_of(None, served) == key
