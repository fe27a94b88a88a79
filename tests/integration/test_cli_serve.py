"""`dflash serve` with the fake engines: from the start to the end of the process tree."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time

import psutil
import pytest


def wait_for(said: str, process: subprocess.Popen, seconds: float = 20) -> str:
    """Read stderr until a line holds `said`."""
    seen, until = "", time.monotonic() + seconds
    while time.monotonic() < until:
        line = process.stderr.readline()
        seen += line
        if said in line:
            return seen
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"never said {said!r}:\n{seen}")


def gone(pids: list[int], seconds: float = 8) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("engine", "block"), [("vllm", '"num_speculative_tokens": 7'), ("sglang", "8")]
)
def test_serve_starts_proves_and_stays_until_it_is_told_to_stop(
    dflash, port, tmp_path, engine, block
):
    echo = tmp_path / "echo.json"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", engine, "--port", str(port), "--json",
        env={"FAKE_ENGINE_ECHO": str(echo), "FAKE_ENGINE_ACCEPTANCE": "4.5"},
    )  # fmt: skip
    log = wait_for("ready after", process)
    assert "cceptance length 4.5" in log
    started = json.loads(echo.read_text())
    assert any(block in word for word in started["argv"])
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=15)
    assert "in a browser" not in err  # these engines have no page
    report = json.loads(out)
    assert report["endpoint"]["base_url"] == f"http://127.0.0.1:{port}"
    assert report["verdict"]["state"] == "fine"
    assert process.returncode == 0  # the engine's own, told to stop


def test_ctrl_c_exits_130(dflash, port):
    process = dflash.start("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port))
    wait_for("ready after", process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_however_the_command_ends_no_process_of_the_engine_is_left(dflash, port, tmp_path, how):
    pids = tmp_path / "pids"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_PIDS": str(pids), "FAKE_ENGINE_WORKERS": "2", "FAKE_ENGINE_SETSID_WORKER": "1"},
    )  # fmt: skip
    wait_for("ready after", process)
    tree = [int(line) for line in pids.read_text().split()]
    assert len(tree) == 4
    process.send_signal(how)
    process.communicate(timeout=20)
    assert gone(tree)


def test_an_engine_that_ignores_sigterm_is_killed_by_a_second_ctrl_c(dflash, port, tmp_path):
    pids = tmp_path / "pids"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_PIDS": str(pids), "FAKE_ENGINE_IGNORE_SIGTERM": "1"},
    )  # fmt: skip
    wait_for("ready after", process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)
    assert process.returncode == 130
    assert gone([int(line) for line in pids.read_text().split()])


def test_ctrl_c_while_it_starts_leaves_nothing(dflash, port, tmp_path):
    pids = tmp_path / "pids"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_PIDS": str(pids), "FAKE_ENGINE_NEVER_READY": "1"},
    )  # fmt: skip
    until = time.monotonic() + 10
    while not pids.exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert gone([int(line) for line in pids.read_text().split()])


def test_an_inactive_draft_fails_the_launch_with_the_causes(dflash, port):
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--json",
        env={"FAKE_ENGINE_ACCEPTANCE": "1.0"},
    )  # fmt: skip
    assert ended.code == 8
    assert json.loads(ended.out)["error"]["code"] == "gate"
    assert "  1. " in ended.err
    assert "try: dflash plan gpt-oss-20b --engine vllm --why" in ended.err
    assert "--acceptance warn" in ended.err


def test_an_inactive_draft_only_warns_when_asked_to(dflash, port):
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--acceptance", "warn",
        env={"FAKE_ENGINE_ACCEPTANCE": "1.0"},
    )  # fmt: skip
    assert "warning" in wait_for("ready after", process)
    process.terminate()
    process.communicate(timeout=15)


def test_an_engine_that_dies_shows_its_last_lines_and_exits_7(dflash, port):
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_CRASH_AFTER": "0.2", "FAKE_ENGINE_NEVER_READY": "1"},
    )  # fmt: skip
    assert ended.code == 7
    assert "out of memory" in ended.err.lower()
    assert "hint:" in ended.err
    assert ended.err.count("Traceback") <= 2  # the engine's own, passed on and quoted


def test_the_engines_exit_code_is_passed_on(dflash, port):
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_CRASH_AFTER": "4", "FAKE_ENGINE_EXIT_CODE": "17"},
    )  # fmt: skip
    _, err = process.communicate(timeout=30)
    assert process.returncode == 17
    assert "vLLM ended with exit code 17" in err


def test_a_server_that_is_never_ready_is_ended_in_time(dflash, port):
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--timeout", "1",
        env={"FAKE_ENGINE_NEVER_READY": "1"},
    )  # fmt: skip
    assert ended.code == 7
    assert "--timeout 2" in ended.err


def test_a_taken_port_is_named_with_a_free_one(dflash):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ended = dflash.run("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(taken))
    assert ended.code == 7
    assert str(taken) in ended.err
    assert "--port" in ended.err.split("hint:")[1]


def test_a_missing_engine_says_what_to_install(bare):
    ended = bare.run("serve", "gpt-oss-20b", "--engine", "vllm")
    assert ended.code == 5
    assert "dflash engine install vllm==0.33.0" in ended.err


def test_an_engine_below_the_floor_is_refused_before_anything_starts(dflash, engines, tmp_path):
    echo = tmp_path / "echo.json"
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm",
        env={"FAKE_ENGINE_VERSION": "0.21.0", "FAKE_ENGINE_ECHO": str(echo)},
    )  # fmt: skip
    assert ended.code == 5
    assert "needs 0.26.0" in ended.err
    assert not echo.exists()


def test_an_environment_by_option_wins_over_path(dflash, tmp_path, port):
    from tests.fakes import install_fakes

    install_fakes(tmp_path / "other" / "bin", vllm="0.22.1")
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--engine-env", str(tmp_path / "other")
    )
    assert ended.code == 5
    assert "0.22.1" in ended.err


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_key_reaches_the_engine_and_no_command_line_or_output(dflash, port, tmp_path, engine):
    echo = tmp_path / "echo.json"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", engine, "--port", str(port),
        env={"DFLASH_API_KEY": "open-sesame-42", "FAKE_ENGINE_ECHO": str(echo)},
    )  # fmt: skip
    log = wait_for("ready after", process)
    argv = json.loads(echo.read_text())["argv"]
    tree = [
        process.pid,
        *(child.pid for child in psutil.Process(process.pid).children(recursive=True)),
    ]
    lines = [" ".join(psutil.Process(pid).cmdline()) for pid in tree]
    process.terminate()
    _, rest = process.communicate(timeout=15)
    assert not any("sesame" in text for text in (*argv, *lines, log, rest))


def test_arguments_after_two_dashes_reach_the_engine(dflash, port, tmp_path):
    echo = tmp_path / "echo.json"
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--", "--gpu-memory-utilization", "0.85",
        env={"FAKE_ENGINE_ECHO": str(echo)},
    )  # fmt: skip
    wait_for("ready after", process)
    process.terminate()
    process.communicate(timeout=15)
    assert json.loads(echo.read_text())["argv"][-2:] == ["--gpu-memory-utilization", "0.85"]


def test_a_closed_stderr_does_not_end_the_server(dflash, port):
    read, write = os.pipe()
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--acceptance", "off",
        env={"FAKE_ENGINE_STDERR_FLOOD": "200000"}, stderr=write,
    )  # fmt: skip
    os.close(write)
    os.close(read)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                break
        except OSError:
            time.sleep(0.1)
    time.sleep(1)
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait(5)


def test_an_engine_that_ends_by_itself_is_a_failure_even_with_code_0(dflash, port):
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_CRASH_AFTER": "3", "FAKE_ENGINE_EXIT_CODE": "0"},
    )  # fmt: skip
    assert ended.code == 7
    assert "while it served" in ended.err


def test_ctrl_c_during_the_check_is_an_interruption(dflash, port):
    process = dflash.start(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"FAKE_ENGINE_ANSWER_DELAY": "3"},
    )  # fmt: skip
    wait_for("Application startup complete", process)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "the server failed" not in err


@pytest.mark.parametrize("key", [" ", "é", "a\nb", " x"])
def test_a_key_that_cannot_be_a_header_is_refused_before_anything_starts(
    dflash, port, tmp_path, key
):
    echo = tmp_path / "echo.json"
    ended = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port),
        env={"DFLASH_API_KEY": key, "FAKE_ENGINE_ECHO": str(echo)},
    )  # fmt: skip
    assert ended.code == 2
    assert "DFLASH_API_KEY" in ended.err
    assert not echo.exists()


@pytest.mark.parametrize("host", ["a..b", "x" * 300])
def test_a_host_that_is_no_name_is_a_usage_error(dflash, host):
    ended = dflash.run("serve", "gpt-oss-20b", "--engine", "vllm", "--host", host)
    assert ended.code == 2
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("flag", ["--ssl-keyfile", "--ssl-certfile"])
def test_a_server_that_speaks_tls_is_refused_before_anything_starts(dflash, port, flag):
    words = ("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port))
    ended = dflash.run(*words, "--", f"{flag}=x.pem")
    assert ended.code == 2
    assert f"error: {flag}: dflash speaks plain http" in ended.err
