"""Waiting until a server that is starting answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from dflash_deploy.errors import Interrupted, LaunchError
from dflash_deploy.launch.endings import NAMES, died
from dflash_deploy.schema import EngineName

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
ANSWER_TIMEOUT = 20.0
"""Seconds one check may take: SGLang generates a token for it, slowly at first."""


class Starting(Protocol):
    """What the wait needs to know of a process; `EngineProcess`, or a container."""

    engine: EngineName
    phase: str | None
    stop_asked: bool

    def poll(self) -> int | None: ...

    @property
    def tail(self) -> tuple[str, ...]: ...


def wait_ready(
    process: Starting,
    url: str,
    timeout: float,
    on_phase: Callable[[str], None] = lambda _: None,
    *,
    headers: Mapping[str, str] | None = None,
) -> float:
    """Wait for a 200 from `url`; the seconds it took.

    Only the whole time counts: engines compile for minutes without a log line.
    Raises LaunchError when the process ends or the time is over, Interrupted when the process was
    asked to stop meanwhile.
    """
    import httpx

    began, pause, phase, answer = time.monotonic(), FIRST_PAUSE, None, "no connection"
    limits = httpx.Timeout(max(5.0, min(ANSWER_TIMEOUT, timeout)), connect=2.0)
    # no proxy belongs between this machine and itself
    with httpx.Client(timeout=limits, trust_env=False, headers=headers) as client:
        while True:
            _check_alive(process)
            if process.phase and process.phase != phase:
                phase = process.phase
                on_phase(phase)
            try:
                status = client.get(url).status_code
                if status == httpx.codes.OK:
                    return time.monotonic() - began
                answer = f"status {status}"
            except httpx.HTTPError as error:
                answer = str(error) or type(error).__name__
            if time.monotonic() - began > timeout:
                raise _too_late(process, url, timeout, answer)
            _pause(process, phase, pause)
            pause = min(LONGEST_PAUSE, pause * 1.3)


def _pause(process: Starting, phase: str | None, seconds: float) -> None:
    """Sleep, but not past the process's end or the next phase."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.phase == phase and not process.stop_asked:
        if process.poll() is not None:
            return
        time.sleep(0.05)


def _check_alive(process: Starting) -> None:
    code = process.poll()
    if process.stop_asked:
        raise Interrupted("stopped before it was ready")
    if code is not None:
        raise died(process.engine, code, process.tail, "before it was ready")


def _too_late(process: Starting, url: str, timeout: float, answer: str) -> LaunchError:
    at = f" It was last {process.phase}." if process.phase else ""
    return LaunchError(
        f"{NAMES[process.engine]} was not ready after {timeout:g} s.{at}",
        hint=f"--timeout {max(1, int(timeout * 2))}",
        detail="\n".join((*process.tail[-20:], f"{url}: {answer}")),
    )
