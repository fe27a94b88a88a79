"""Servers that outlive their command: started, found again, ended, and every way that can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import CommandLine, Finished

NAME = "gpt-oss-20b-{}"
PHASES = {
    "vllm": (
        "Loading model from scratch",
        "Dynamo bytecode",
        "Available KV cache",
        "Capturing CUDA",
    ),
    "sglang": ("Load weight begin", "KV Cache is allocated", "Capture cuda graph begin"),
}


class Machine:
    """One user's servers: commands, and what can be seen of them from outside."""

    def __init__(self, dflash: CommandLine, home: Path, port: int) -> None:
        self.dflash, self.port, self.name = dflash, port, NAME.format(port)
        self.pids = home / "pids"
        self.state = home / "state" / "dflash"
        self.file = self.state / "servers" / f"{self.name}.json"
        self.log = self.state / "logs" / f"{self.name}.log"

    def words(self, *more: str, engine: str = "vllm") -> tuple[str, ...]:
        at = ("--engine", engine, "--port", str(self.port), "--detach")
        return ("serve", "gpt-oss-20b", *at, *more)

    def env(self, knobs: dict[str, object]) -> dict[str, str]:
        made = {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        return {"FAKE_ENGINE_PIDS": str(self.pids), "FAKE_ENGINE_PHASE_DELAY": "0.002", **made}

    def serve(self, *more: str, engine: str = "vllm", **knobs: object) -> Finished:
        return self.dflash.run(*self.words(*more, engine=engine), env=self.env(knobs))

    def begin(self, *more: str, **knobs: object) -> subprocess.Popen[str]:
        return self.dflash.start(*self.words(*more), env=self.env(knobs))

    def ps(self) -> list[dict]:
        return json.loads(self.dflash.run("ps", "--json").out)

    def record(self) -> dict:
        return json.loads(self.file.read_text())

    def living(self) -> list[int]:
        recorded = self.pids.read_text().split() if self.pids.exists() else []
        return [pid for pid in map(int, recorded) if runs(pid)]

    def guard(self) -> psutil.Process:
        return psutil.Process(self.record()["pid"]).children()[0]

    def nothing_left(self) -> bool:
        return until(lambda: not self.living() and not self.file.exists())


@pytest.fixture
def machine(dflash, tmp_path, port):
    made = Machine(dflash, tmp_path, port)
    yield made
    if made.file.exists():
        os.kill(made.record()["pid"], signal.SIGKILL) if runs(made.record()["pid"]) else None
    for pid in made.living():
        os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(holds: Callable[[], object], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_it_outlives_the_command_and_is_found_read_and_stopped(machine, engine):
    started = machine.serve("--json", engine=engine, WORKERS=1, SETSID_WORKER=1)
    assert started.code == 0, started.err
    assert json.loads(started.out)["endpoint"]["base_url"].endswith(str(machine.port))
    assert f"dflash stop {machine.name}" in started.err

    (seen,) = machine.ps()
    assert (seen["name"], seen["state"], seen["detached"]) == (machine.name, "ready", True)
    assert 2.9 < seen["numbers"]["acceptance_length"] < 3.1
    assert len(machine.living()) == 3
    log = machine.dflash.run("logs", machine.name).out
    assert "Started server process" in log
    assert "vllm serve" not in log  # the engine's words, not ours

    stopped = machine.dflash.run("stop", machine.name)
    assert (stopped.code, machine.living()) == (0, [])
    assert not machine.file.exists()
    assert machine.ps() == []
    assert machine.dflash.run("stop", machine.name).code == 0  # once more
    assert "Started server process" in machine.dflash.run("logs", machine.name).out


def test_the_table_fits_80_columns(machine):
    machine.serve()

    shown = machine.dflash.run("ps", env={"COLUMNS": "80"}).out

    assert shown.split()[:7] == ["NAME", "MODEL", "ENGINE", "PORT", "STATE", "ACCEPT", "SINCE"]
    assert shown.splitlines()[1].split()[-3] == "3.05"
    assert max(map(len, shown.splitlines())) <= 80
    assert machine.dflash.run("stop", "--all").code == 0


def test_a_draft_that_does_nothing_fails_the_launch_and_leaves_nothing(machine):
    ended = machine.serve(ACCEPTANCE=1.0)

    assert ended.code == 8
    assert machine.nothing_left()


@pytest.mark.parametrize(
    ("engine", "line"), [(engine, line) for engine, lines in PHASES.items() for line in lines]
)
def test_a_crash_in_any_phase_is_told_as_in_the_foreground(machine, engine, line):
    ended = machine.serve(engine=engine, CRASH_AT=line)

    assert ended.code == 7
    assert "ended with exit code 1 before it was ready" in ended.err
    assert "torch.OutOfMemoryError" in ended.err
    assert "hint: not enough GPU memory" in ended.err
    assert machine.nothing_left()


def test_a_known_failure_is_told_with_what_to_do(machine):
    ended = machine.serve(
        CRASH_AT="Loading model",
        LAST_WORDS="ValueError: DFlash drafter expects 20480 concatenated aux hidden features",
    )

    assert "hint: this draft belongs to another target" in ended.err


def test_a_silent_start_is_waited_for_until_the_time_is_over(machine):
    ended = machine.serve("--timeout", "1", HANG_AT="Dynamo bytecode")

    assert ended.code == 7
    assert "was not ready after 1 s. It was last compiling" in ended.err
    assert "compiling ..." in ended.err
    assert machine.nothing_left()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_command_that_ends_before_it_is_ready_takes_the_server_with_it(machine, how):
    command = machine.begin(HANG_AT="Dynamo bytecode", WORKERS=1)
    assert until(lambda: len(machine.living()) == 2)

    command.send_signal(how)
    command.communicate(timeout=15)

    assert command.returncode == (-9 if how == signal.SIGKILL else 130)
    assert machine.nothing_left()


def test_a_keeper_that_is_killed_takes_the_server_with_it_and_ps_says_so(machine):
    machine.serve(WORKERS=1, SETSID_WORKER=1)

    os.kill(machine.record()["pid"], signal.SIGKILL)

    assert until(lambda: not runs(machine.record()["pid"]))
    shown = machine.dflash.run("ps")
    assert shown.code == 0
    assert f"{machine.name} was killed" in shown.err
    assert machine.nothing_left()
    assert "warning" not in machine.dflash.run("ps").err


def test_a_crash_is_kept_in_mind_until_somebody_takes_note(machine):
    machine.serve()

    os.kill(machine.living()[0], signal.SIGKILL)

    assert until(lambda: machine.record()["ended"])
    (seen,) = machine.ps()
    assert seen["state"].startswith("vLLM was killed (SIGKILL)")
    assert machine.dflash.run("stop", machine.name).code == 0
    assert machine.ps() == []


def test_after_a_crash_it_starts_again_so_many_times(machine):
    machine.serve("--restart", "1")
    (first,) = machine.living()

    machine.guard().kill()  # and with it the engine

    assert until(lambda: machine.living() and first not in machine.living())
    assert until(lambda: machine.record()["ready"])
    (seen,) = machine.ps()
    assert (seen["state"], seen["restarts"]) == ("ready", 1)
    assert "starting it again in 1 s (1 of 1)" in machine.log.read_text()

    os.kill(machine.living()[0], signal.SIGKILL)
    assert until(lambda: machine.record()["ended"])
    assert machine.living() == []


def test_after_a_restart_the_draft_is_proven_again(machine):
    machine.serve("--restart", "1", ACCEPTANCE_AGAIN=1.0)
    assert machine.ps()[0]["state"] == "ready"

    os.kill(machine.living()[0], signal.SIGKILL)

    assert until(lambda: machine.record()["speculation"] == "collapsed")
    assert machine.record()["ready"]
    assert machine.ps()[0]["state"] == "ready, speculation collapsed"
    log = machine.log.read_text()
    assert "almost nothing of it is accepted" in log
    assert "try: dflash plan gpt-oss-20b --engine vllm --why" in log
    assert machine.dflash.run("stop", machine.name).code == 0
    assert machine.nothing_left()


def test_a_server_nobody_waits_for_is_proven_by_its_keeper(machine, tmp_path):
    started = machine.serve("--no-wait", "--json", HOLD_START=tmp_path / "go")
    assert started.code == 0, started.err
    assert json.loads(started.out)["ready_seconds"] is None

    assert not machine.record()["ready"]
    assert machine.ps()[0]["state"] != "ready"
    assert machine.dflash.run("ps", "--check").code == 7
    (tmp_path / "go").touch()
    assert until(lambda: machine.record()["ready"], 30)
    assert "below the lowest on record" in machine.log.read_text()
    assert machine.ps()[0]["numbers"]["acceptance_length"] > 2
    assert machine.dflash.run("stop", machine.name).code == 0


def test_a_server_nobody_waits_for_is_not_ready_before_its_check(machine, tmp_path):
    assert machine.serve("--no-wait", HOLD_ANSWERS=tmp_path / "go").code == 0

    assert until(lambda: machine.ps()[0]["state"] == "proving the draft")
    checked = machine.dflash.run("ps", "--check")
    assert (checked.code, "proving the draft" in checked.err) == (7, True)
    (tmp_path / "go").touch()
    assert until(lambda: machine.record()["ready"], 20)
    assert until(lambda: machine.dflash.run("ps", "--check").code == 0, 20)


def test_a_server_nobody_waits_for_that_dies_is_remembered(machine):
    assert machine.serve("--no-wait", CRASH_AT="Dynamo bytecode", PHASE_DELAY=0.1).code == 0

    assert until(lambda: machine.record()["ended"])
    assert machine.ps()[0]["state"] == "vLLM ended with exit code 1 before it was ready"


def test_a_draft_that_only_warned_shows_in_ps(machine):
    assert machine.serve("--acceptance", "warn", ACCEPTANCE=1.0).code == 0

    assert machine.record()["speculation"] == "collapsed"
    assert machine.ps()[0]["state"] == "ready, speculation collapsed"


def test_stop_between_a_crash_and_the_next_start(machine):
    machine.serve("--restart", "5")
    os.kill(machine.living()[0], signal.SIGKILL)
    assert until(lambda: machine.record()["restarts"] == 1)

    assert machine.dflash.run("stop", machine.name).code == 0

    assert machine.nothing_left()


def test_of_two_at_once_on_one_port_one_is_refused_with_the_others_name(machine):
    first, second = machine.begin(), machine.begin()

    told = [process.communicate(timeout=30)[1] for process in (first, second)]

    assert sorted((first.returncode, second.returncode)) == [0, 7], told
    assert any(f"taken by {machine.name}" in err for err in told)
    assert len(machine.living()) == 1
    assert machine.dflash.run("stop", machine.name).code == 0


def test_a_foreground_server_is_found_and_stopped_as_well(machine):
    words = [word for word in machine.words() if word != "--detach"]
    with machine.dflash.start(*words, env=machine.env({})) as command:
        assert until(lambda: machine.file.exists() and machine.record()["ready"])
        (seen,) = machine.ps()
        refused = machine.serve()
        no_log = machine.dflash.run("logs", machine.name)
        stopped = machine.dflash.run("stop", machine.name)
        command.communicate(timeout=15)

    assert (seen["state"], seen["detached"]) == ("ready", False)
    assert (refused.code, no_log.code, stopped.code) == (7, 2, 0)
    assert f"taken by {machine.name}" in refused.err
    assert machine.nothing_left()


@pytest.mark.parametrize(
    "words", [("stop",), ("stop", "x", "--all"), ("stop", "nope"), ("logs", "../nope")]
)
def test_a_name_that_means_nothing_is_a_slip(dflash, words):
    ended = dflash.run(*words)

    assert ended.code == 2
    assert "hint:" in ended.err


@pytest.mark.parametrize("words", [("--restart", "3"), ("--no-wait",)])
def test_some_options_are_for_detached_servers(dflash, words):
    ended = dflash.run("serve", "gpt-oss-20b", *words)

    assert ended.code == 2
    assert f"{words[0]} is for servers that outlive this command" in ended.err
