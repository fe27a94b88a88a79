"""The command line as a user runs it: a process, with the fake engines first on its PATH."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker_engine import docker_engine
from tests.fakes import install_fakes

# here alone: a module that imports it too would start a second daemon
__all__ = ["docker_engine"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    """A folder with the newest fake vllm and sglang."""
    install_fakes(tmp_path / "bin")
    return tmp_path / "bin"


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _as_from_a_terminal() -> None:
    """A run under nohup, or in the background, ignores these, and hands that on."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class CommandLine:
    """Starts `dflash` with the fakes on PATH and nothing else of the user's."""

    module = "dflash_deploy"

    def __init__(self, bin_dir: Path | None, home: Path) -> None:
        path = f"{bin_dir}:/usr/bin:/bin" if bin_dir else "/usr/bin:/bin"
        self.env = {
            "PATH": path,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),
        }
        for kept in ("XDG_CACHE_HOME", "COVERAGE_PROCESS_START"):
            if kept in os.environ:
                self.env[kept] = os.environ[kept]

    def start(self, *argv: str, env: dict[str, str] | None = None, **options) -> subprocess.Popen:
        defaults = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "preexec_fn": _as_from_a_terminal,
        }
        return subprocess.Popen(
            [sys.executable, "-m", self.module, *argv],
            env=self.env | (env or {}),
            **(defaults | options),
        )

    def run(self, *argv: str, env: dict[str, str] | None = None, **options):
        """Run to the end; an object with `code`, `out` and `err`."""
        process = self.start(*argv, env=env, **options)
        out, err = process.communicate(timeout=60)
        return Finished(process.returncode, out, err)


class Finished:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def dflash(engines: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(engines, tmp_path)


@pytest.fixture
def bare(tmp_path: Path) -> CommandLine:
    """A machine without any engine."""
    return CommandLine(None, tmp_path)
