"""Starting a plan's engine, and everything that can be asked of it while it runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from dflash_deploy.launch import guard
from dflash_deploy.launch.endings import NO_SIGNS
from dflash_deploy.launch.output import Sink, Tail, start_pump
from dflash_deploy.launch.secrets import Command, with_secrets
from dflash_deploy.launch.signs import Signs
from dflash_deploy.plan import Plan
from dflash_deploy.schema import EngineName

GRACE = 10.0
"""Seconds an engine gets between SIGTERM and SIGKILL."""
LAUNCH_ID = "DFLASH_LAUNCH_ID"
KEPT_ENVIRONMENT = {"SPT_NOENV": "1"}
"""Told so, setproctitle writes a name (`VLLM::EngineCore`) over no environment: our mark stays."""


class EngineProcess:
    """A running engine tree. As a context manager it ends with the block, however that ends."""

    def __init__(
        self,
        engine: EngineName,
        command: Command,
        grace: float,
        signs: Signs,
        launch_id: str | None = None,
    ) -> None:
        self.engine = engine
        self.signs = signs
        self.grace = grace
        self.phase: str | None = None
        """What the log said last; see signs.py."""
        self.stop_asked = False
        self._command = command
        self._launch_id = launch_id or uuid.uuid4().hex
        self._tail = Tail(self._notice)
        self._guard: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None

    def run(self, output: Sink | None) -> None:
        """Start it. Its output goes to `output` byte for byte as it comes; None throws it away."""
        source, sink = os.pipe()
        removed = [word for file in self._command.files for word in ("--remove", str(file))]
        try:
            self._guard = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", guard.__file__, str(self.grace)),
                    *(*removed, "--", *self._command.argv),
                ],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                env={**self._command.env, **KEPT_ENVIRONMENT, LAUNCH_ID: self._launch_id},
                # out of reach of the terminal's Ctrl-C: what the engine gets, it gets once
                start_new_session=True,
            )
        except BaseException:
            os.close(source)
            self.close()
            end_marked(
                self._launch_id
            )  # interrupted, it may run already, and we have no hold of it
            raise
        finally:
            os.close(sink)
        hidden = [value.encode() for value in self._command.hidden]
        self._pump = start_pump(source, output, self._tail, hidden)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output."""
        return self._tail.lines

    def poll(self) -> int | None:
        """Its exit code (128 + N after signal N), or None while any of its tree runs."""
        code = self._started.poll()
        return None if code is None else self._ended(code)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        return self._ended(self._started.wait(timeout))

    def terminate(self) -> None:
        """Ask it to stop; it is killed when the grace period is over."""
        self.stop_asked = True
        self._ask(guard.ASK)

    def kill(self) -> None:
        """End the whole tree now."""
        self.stop_asked = True
        self._ask(guard.KILL)

    def stop(self) -> int:
        """Ask, wait, and if need be kill; its exit code."""
        if self.poll() is None:
            self.terminate()
        return self.wait()

    def close(self) -> None:
        """Give up the control pipe, which ends what still runs, and remove files with secrets."""
        if self._guard and self._guard.stdin:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        for file in self._command.files:
            file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except (KeyboardInterrupt, SystemExit):  # the second Ctrl-C, or the second SIGTERM
            self.kill()
            self.wait()
            raise
        finally:
            self.close()

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise RuntimeError("the engine was not started")
        return self._guard

    def _ask(self, what: bytes) -> None:
        pipe = self._started.stdin
        with contextlib.suppress(OSError, ValueError):
            if pipe:
                # unbuffered: this may run inside a signal handler
                os.write(pipe.fileno(), what)

    def _ended(self, code: int) -> int:
        if code < 0:
            # the guard itself was killed: whatever it could not end carries our mark
            end_marked(self._launch_id)
            code = 128 - code
        if self._pump:
            self._pump.join(timeout=1)
        return code

    def _notice(self, line: str) -> None:
        self.phase = self.signs.phase_of(line) or self.phase


def start(
    plan: Plan,
    *,
    executable: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    output: Sink | None = None,
    grace: float = GRACE,
    signs: Signs = NO_SIGNS,
    launch_id: str | None = None,
) -> EngineProcess:
    """Start the plan's engine; `executable` takes the place of the first word of its argv.

    `launch_id` marks its processes, so that what is left of them can be found.
    """
    command = with_secrets(plan, environ)
    if executable:
        command = replace(command, argv=(str(executable), *command.argv[1:]))
    process = EngineProcess(plan.engine, command, grace, signs, launch_id)
    process.run(output)
    return process


def end_marked(launch_id: str) -> int:
    """Kill whatever carries the mark of a launch; how many there were."""
    import psutil

    ended = 0
    for found in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if found.environ().get(LAUNCH_ID) == launch_id:
                found.kill()
                ended += 1
    return ended
