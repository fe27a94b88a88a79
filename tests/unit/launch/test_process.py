from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from dflash_deploy.launch.process import start
from dflash_deploy.launch.signs import Signs
from dflash_deploy.plan import Plan
from tests.fakes.plans import plan


def shell(script: str) -> Plan:
    return plan("vllm", argv=("sh", "-c", script))


def test_output_arrives_while_the_engine_runs() -> None:
    out = io.BytesIO()

    with start(shell("echo up; sleep 60"), output=out, grace=0.2) as process:
        until = time.monotonic() + 3
        while out.getvalue() != b"up\n" and time.monotonic() < until:
            time.sleep(0.01)

        assert out.getvalue() == b"up\n"
        assert process.poll() is None


def test_the_exit_code_and_both_streams_come_back() -> None:
    with start(shell("echo out; echo err >&2; exit 4")) as process:
        assert process.wait(5) == 4
        assert process.tail == ("out", "err")


def test_the_executable_takes_the_place_of_the_first_word() -> None:
    a_plan = plan("vllm", argv=("vllm", "-c", "print('it is python')"))

    with start(a_plan, executable=Path(sys.executable)) as process:
        process.wait(5)

        assert process.tail == ("it is python",)


def test_an_error_in_the_block_ends_the_engine() -> None:
    with pytest.raises(ZeroDivisionError), start(shell("exec sleep 60"), grace=1) as process:
        raise ZeroDivisionError

    assert process.poll() == 143


def test_interrupted_while_it_is_started_it_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the process and our hold of it."""
    file, popen, begun = tmp_path / "pid", subprocess.Popen, []

    def interrupted(*args: Any, **options: Any) -> None:
        begun.append(popen(*args, **options))
        while not (file.exists() and file.read_text().strip()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    script = f"trap '' TERM; echo $$ > {file}; while :; do sleep .05; done"
    with pytest.raises(KeyboardInterrupt):
        start(shell(script), grace=60)

    begun[0].wait(5)
    until = time.monotonic() + 5
    while psutil.pid_exists(int(file.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not psutil.pid_exists(int(file.read_text()))


def test_kill_does_not_wait_for_the_grace_period() -> None:
    with start(shell("trap '' TERM; while :; do sleep .05; done"), grace=60) as process:
        began = time.monotonic()
        process.kill()

        assert process.wait(5) == 137
        assert time.monotonic() - began < 1


def test_the_log_moves_the_phase_on() -> None:
    signs = Signs(phases=(("capturing CUDA graphs", re.compile("Capturing CUDA")),))
    said = shell("echo 'Capturing CUDA graphs (decode)'; echo else")
    with start(said, signs=signs) as process:
        process.wait(5)

        assert process.phase == "capturing CUDA graphs"


def test_python_engines_do_not_hold_their_lines_back() -> None:
    a_plan = plan("vllm", argv=("sh", "-c", "echo $PYTHONUNBUFFERED"))

    with start(a_plan, environ={"PATH": os.environ["PATH"]}) as process:
        process.wait(5)

        assert process.tail == ("1",)


def test_the_terminals_ctrl_c_does_not_reach_the_engine() -> None:
    a_plan = plan("vllm", argv=(sys.executable, "-c", "import os; print(os.getsid(0))"))

    with start(a_plan) as process:
        process.wait(5)

        assert process.tail != (str(os.getsid(0)),)
