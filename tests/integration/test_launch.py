"""The engine's whole process tree, from its start to every way it can end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from dflash_deploy.plan import Plan
from tests.fakes import ROOT, install_fakes
from tests.fakes.plans import plan

Started = subprocess.Popen[bytes]
Start = Callable[..., Started]


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def start(tmp_path: Path, pids: Path) -> Iterator[Start]:
    """Run the driver on a plan; knobs of the fake engine as keywords."""
    install_fakes(tmp_path / "bin")
    running: list[Started] = []

    def run(a_plan: Plan, *options: str, stderr: int | None = None, **knobs: object) -> Started:
        file = tmp_path / "plan.json"
        file.write_bytes(msgspec.json.encode(a_plan))
        environ = os.environ | {"FAKE_ENGINE_PIDS": str(pids)}
        environ |= {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        driver = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.fakes.driver",
                str(file),
                str(tmp_path / "bin"),
                *options,
            ],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=stderr if stderr is not None else subprocess.PIPE,
        )
        running.append(driver)
        return driver

    yield run
    for driver in running:
        driver.kill()
        driver.communicate()
    for pid in living(pids):
        os.kill(pid, signal.SIGKILL)


def living(pids: Path) -> list[int]:
    """Recorded processes that run; a zombie has ended, and waits for its parent to notice."""
    return [pid for pid in map(int, pids.read_text().split() if pids.exists() else ()) if runs(pid)]


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_ready(driver: Started) -> list[str]:
    assert driver.stdout is not None
    seen = []
    for line in driver.stdout:
        seen.append(line.decode().strip())
        if seen[-1] == "ready":
            return seen
    raise AssertionError(f"never ready: {seen}, {driver.stderr and driver.stderr.read().decode()}")


def gone_within(pids: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while living(pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def guards_of(driver: Started) -> list[psutil.Process]:
    children = psutil.Process(driver.pid).children()
    return [child for child in children if any("guard.py" in word for word in child.cmdline())]


TREE = {"WORKERS": 1, "SETSID_WORKER": 1}


def test_ready_after_its_phases_and_nothing_left_after_sigterm(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), **TREE, PHASE_DELAY=0.06)

    seen = until_ready(driver)

    assert "phase loading weights" in seen
    assert len(living(pids)) == 3
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(5) == 130
    assert gone_within(pids, 0.2)


def test_sigint_ends_a_sglang_tree(start: Start, pids: Path) -> None:
    driver = start(plan("sglang"), **TREE)
    until_ready(driver)

    driver.send_signal(signal.SIGINT)

    assert driver.wait(5) == 130
    assert gone_within(pids, 0.2)


def test_the_tree_ends_though_its_parent_is_killed(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), **TREE, IGNORE_SIGTERM=1)
    until_ready(driver)
    guards = guards_of(driver)

    driver.kill()

    assert len(guards) == 1
    assert gone_within(pids, 5)
    time.sleep(0.1)
    assert not runs(guards[0].pid)


def test_the_engine_ends_though_its_guard_is_killed(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), **TREE)
    until_ready(driver)

    guards_of(driver)[0].kill()

    assert driver.wait(5) == 7
    assert gone_within(pids, 1)


def test_a_second_signal_does_not_wait_for_the_grace_period(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), "--grace", "60", **TREE, IGNORE_SIGTERM=1)
    until_ready(driver)

    driver.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert driver.poll() is None
    driver.send_signal(signal.SIGINT)

    assert driver.wait(3) == 130
    assert gone_within(pids, 0.2)


def test_interrupted_before_it_is_ready(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), NEVER_READY=1)
    while not living(pids):
        time.sleep(0.02)

    driver.send_signal(signal.SIGINT)

    assert driver.wait(5) == 130
    assert gone_within(pids, 0.2)


def test_a_crash_at_the_start_shows_the_engines_last_words(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), **TREE, CRASH_AFTER=0.1, PHASE_DELAY=1)

    out, err = driver.communicate(timeout=5)

    assert driver.returncode == 7
    assert b"vLLM ended with exit code 1 before it was ready" in out
    assert b"not enough GPU memory" in out
    assert b"torch.OutOfMemoryError" in out
    assert b"torch.OutOfMemoryError" in err
    assert gone_within(pids, 0.2)


def test_a_crash_while_serving_ends_the_workers_too(start: Start, pids: Path) -> None:
    driver = start(plan("sglang"), **TREE, CRASH_AFTER=0.7, DIE_BY_SIGNAL=int(signal.SIGKILL))
    until_ready(driver)

    out, _ = driver.communicate(timeout=5)

    assert driver.returncode == 7
    assert b"SGLang was killed (SIGKILL)" in out
    assert b"while it served" in out
    assert gone_within(pids, 0.2)


def test_a_server_that_never_answers_is_given_up(start: Start, pids: Path) -> None:
    driver = start(plan("vllm"), "--timeout", "0.5", NEVER_READY=1)

    out, _ = driver.communicate(timeout=5)

    assert driver.returncode == 7
    assert b"vLLM was not ready after 0.5 s." in out
    assert b"--timeout 1" in out
    assert gone_within(pids, 0.2)


def test_a_refused_flag_is_explained(start: Start) -> None:
    a_plan = plan("sglang", extra=("--mamba-scheduler-strategy", "extra_buffer"))

    out, _ = start(a_plan).communicate(timeout=5)

    assert b"SGLang ended with exit code 2" in out
    assert b"error: unrecognized arguments: --mamba-scheduler-strategy extra_buffer" in out
    assert b"see what comes after `--`" in out


def test_a_closed_stderr_does_not_stop_the_engine(start: Start, pids: Path) -> None:
    reader, writer = os.pipe()
    driver = start(plan("vllm"), stderr=writer, STDERR_FLOOD=300_000)
    os.close(writer)
    os.close(reader)
    until_ready(driver)

    # more than a pipe holds was written by now, or soon is: it must not hold the engine up
    time.sleep(0.5)
    engine = psutil.Process(living(pids)[0])

    assert engine.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(5) == 130


def test_output_comes_through_byte_for_byte(start: Start) -> None:
    driver = start(plan("vllm"), CRASH_AFTER=0.4)

    _, err = driver.communicate(timeout=5)

    assert b"[00:00<00:00, 5.53it/s]\rLoading safetensors" in err


def test_an_ipv6_address_is_reached(start: Start) -> None:
    driver = start(plan("vllm", host="::1"))

    until_ready(driver)


def test_sglang_gets_its_key_in_a_private_file_that_goes_away(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVING_KEY", "open-sesame")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    a_plan = plan("sglang", api_key_env="SERVING_KEY")
    driver = start(a_plan, ECHO=tmp_path / "echo.json")
    until_ready(driver)
    (config,) = tmp_path.glob("dflash-*.yaml")
    argv = msgspec.json.decode((tmp_path / "echo.json").read_bytes())["argv"]

    assert config.stat().st_mode & 0o777 == 0o600
    assert argv[-2:] == ["--config", str(config)]
    assert refused_without(a_plan, "open-sesame")
    driver.kill()
    until = time.monotonic() + 5
    while config.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not config.exists()
    assert driver.stderr is not None
    assert b"open-sesame" not in driver.stderr.read()


def refused_without(a_plan: Plan, key: str) -> bool:
    """Answers 401 without the key, 200 with it."""

    def status(header: str) -> bytes:
        with socket.create_connection((a_plan.host, a_plan.port)) as link:
            link.sendall(f"GET /v1/models HTTP/1.0\r\nHost: x\r\n{header}\r\n".encode())
            return link.recv(64).split()[1]

    return status("") == b"401" and status(f"Authorization: Bearer {key}\r\n") == b"200"
