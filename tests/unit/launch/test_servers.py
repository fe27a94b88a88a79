from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from dflash_deploy.errors import LaunchError, PortTaken
from dflash_deploy.launch import servers, state
from dflash_deploy.launch.detached import record_of
from dflash_deploy.launch.process import LAUNCH_ID
from dflash_deploy.launch.signs import Signs
from tests.fakes.plans import plan

PHASES = ("loading weights", "compiling")
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\ntime.sleep(60)"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


def record(name: str = "qwen3-4b-8000", pid: int | None = None, **changes: object) -> state.Record:
    pid = os.getpid() if pid is None else pid
    made = record_of(plan("vllm", port=int(name.rpartition("-")[2])), name, log=None)
    made = msgspec.structs.replace(made, pid=pid, began=state.beginning(pid) or "", **changes)
    state.write(made)
    return made


def test_a_process_that_got_the_id_later_is_never_ended(child: subprocess.Popen[bytes]) -> None:
    stale = record(pid=child.pid)
    reused = msgspec.structs.replace(stale, began=f"{stale.began}0")
    state.write(reused)

    servers.stop(reused, grace=0.1)
    servers.signalled(reused, signal.SIGKILL)

    assert child.poll() is None
    assert state.every() == ([], [])


def test_stop_ends_what_is_its_own(child: subprocess.Popen[bytes]) -> None:
    servers.stop(record(pid=child.pid))

    assert child.wait(5) == -signal.SIGTERM
    assert state.every() == ([], [])


def test_what_ignores_the_request_is_killed_and_what_it_left_too() -> None:
    said: list[str] = []
    made = record()
    environ = {**os.environ, LAUNCH_ID: made.launch_id}
    keeper = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    left = subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)
    assert keeper.stdout is not None
    keeper.stdout.readline()

    servers.stop(record(pid=keeper.pid, launch_id=made.launch_id), grace=0.2, say=said.append)

    assert keeper.wait(5) == -signal.SIGKILL
    assert left.wait(5) == -signal.SIGKILL
    assert "killing it" in said[0]
    keeper.stdout.close()


def test_a_port_of_ours_is_refused_with_its_servers_name() -> None:
    record()

    with pytest.raises(PortTaken, match="taken by qwen3-4b-8000") as at:
        servers.check_not_ours("127.0.0.1", 8000)

    assert at.value.hint is not None
    assert at.value.hint.startswith("dflash stop qwen3-4b-8000")
    servers.check_not_ours("127.0.0.1", 8001)


def test_a_server_that_is_gone_has_no_port(child: subprocess.Popen[bytes]) -> None:
    record(pid=child.pid)
    child.kill()
    child.wait()

    servers.check_not_ours("127.0.0.1", 8000)


def test_sweeping_forgets_the_killed_and_keeps_the_others(child: subprocess.Popen[bytes]) -> None:
    record("alive-1")
    record("gone-2", pid=child.pid)
    record("crashed-3", pid=child.pid, ended="vLLM ended with exit code 1")
    child.kill()
    child.wait()

    assert [each.name for each in servers.sweep()] == ["gone-2"]
    assert [each.name for each in state.every()[0]] == ["alive-1", "crashed-3"]


def test_how_a_server_is_that_does_not_answer() -> None:
    assert servers.condition(record(), Signs()) == "starting"
    assert servers.condition(record(ready=True), Signs()) == "not answering"
    assert servers.condition(record(ended="SGLang ended"), Signs()) == "SGLang ended"


def test_how_far_it_is_is_told_of_its_last_start() -> None:
    signs = Signs(phases=tuple((name, re.compile(name)) for name in PHASES))
    log = state.log_of("qwen3-4b-8000")
    log.parent.mkdir(parents=True)
    lines = ["compiling", "dflash: vLLM ended with exit code 0; starting it again in 1 s (1 of 1)"]
    log.write_text("\n".join(lines))
    assert servers.condition(record(log=str(log)), signs) == "starting"

    log.write_text("\n".join([*lines, "loading weights"]))
    assert servers.condition(record(log=str(log)), signs) == "loading weights"


def test_a_foreground_server_runs_though_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[str] = []

    def full(_: state.Record) -> None:
        raise LaunchError("/state cannot be written: No space left on device")

    made = record()
    state.remove(made)
    monkeypatch.setattr(state, "write", full)
    with servers.listed(made, warned.append) as ready:
        ready(None)

    assert "`dflash ps` will not show" in warned[0]


def test_a_second_server_on_the_port_is_not_listed() -> None:
    record("qwen3-8b-8000")

    with pytest.raises(PortTaken), servers.listed(record_of(
        plan("vllm", port=8000), "gpt-oss-20b-8000", log=None), print):  # fmt: skip
        pass

    assert [each.name for each in state.every()[0]] == ["qwen3-8b-8000"]
