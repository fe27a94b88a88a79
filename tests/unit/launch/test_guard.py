from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dflash_deploy.launch import guard


def run(*argv: str, grace: float = 1.0, options: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, str(grace), *options, "--", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def say(started: subprocess.Popen[bytes], what: bytes) -> None:
    assert started.stdin is not None
    started.stdin.write(what)
    started.stdin.flush()


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -11 $$", 139)]
)
def test_the_exit_code_is_the_engines(script: str, code: int) -> None:
    assert run("/bin/sh", "-c", script).wait(5) == code


def test_a_program_that_is_not_there() -> None:
    started = run("/nowhere/vllm")

    # not communicate(): it would close the control pipe, which asks for the end
    assert started.stdout is not None
    out = started.stdout.read()

    assert started.wait(5) == 127
    assert out == b"/nowhere/vllm: No such file or directory\n"


def test_the_engine_reads_nothing_from_the_control_pipe() -> None:
    started = run("/bin/cat")

    assert started.wait(5) == 0


def test_being_asked_is_sigterm_and_time_to_obey() -> None:
    started = run(
        "/bin/sh", "-c", "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep .05; done"
    )
    assert started.stdout is not None
    started.stdout.readline()

    say(started, guard.ASK)

    assert started.wait(5) == 5
    assert started.stdout.read() == b"bye\n"


def test_the_grace_period_ends_with_sigkill() -> None:
    started = run("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep .05; done", grace=0.3)
    assert started.stdout is not None
    started.stdout.readline()
    began = time.monotonic()

    say(started, guard.ASK)

    assert started.wait(5) == 137
    assert 0.25 < time.monotonic() - began < 2.5


def test_a_killed_guard_takes_the_engine_with_it() -> None:
    started = run("/bin/sh", "-c", "echo up; exec sleep 60")
    assert started.stdout is not None
    started.stdout.readline()

    started.send_signal(signal.SIGKILL)
    started.wait(5)

    # the output ends when its last writer has: the engine
    assert started.stdout.read() == b""


def test_files_with_secrets_are_removed_at_the_end(tmp_path: Path) -> None:
    secret = tmp_path / "key.yaml"
    secret.write_text("x")

    run("/bin/true", options=("--remove", str(secret))).wait(5)

    assert not secret.exists()


def test_it_starts_fast_enough_to_be_forgotten() -> None:
    took = []
    for _ in range(5):
        began = time.monotonic()
        run("/bin/true").wait(5)
        took.append(time.monotonic() - began)

    # the promise is 0.5 s for everything before the engine; this is most of it
    assert min(took) < 0.25
