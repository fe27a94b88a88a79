"""Waiting until a server that is starting answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dflash_deploy.errors import Interrupted, LaunchError
from dflash_deploy.launch.endings import NAMES, died, evidence
from dflash_deploy.launch.watched import Starting
from dflash_deploy.measure.connection import certificates
from dflash_deploy.memory import Fit

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
STEP = 0.05
USUAL = 1800.0
"""Seconds a start may take: the longest one measured took 248, half of them without a line."""
SLOW_DISK = 15.0
"""Seconds a GiB of weights may take, to be fetched and to be loaded: 70 MB/s."""
ANSWER_TIMEOUT = 20.0
"""Seconds one check may take: SGLang generates a token for it, slowly at first."""


def wait_ready(
    process: Starting,
    url: str,
    timeout: float,
    on_wait: Callable[[str | None, float], None] = lambda *_: None,
    *,
    headers: Mapping[str, str] | None = None,
) -> float:
    """Wait for a 200 from `url`; the seconds it took.

    `on_wait` hears the phase and the seconds so far, again and again. Only the whole time counts:
    engines compile for minutes without a log line.
    Raises LaunchError when the process ends or the time is over, Interrupted when the process was
    asked to stop meanwhile.
    """
    import httpx

    began, pause, answer = time.monotonic(), FIRST_PAUSE, "no connection"
    limits = httpx.Timeout(max(5.0, min(ANSWER_TIMEOUT, timeout)), connect=2.0)
    # no proxy belongs between this machine and itself
    made = httpx.Client(timeout=limits, trust_env=False, headers=headers, verify=certificates())
    with made as client:
        while True:
            _check_alive(process)
            on_wait(process.phase, time.monotonic() - began)
            try:
                status = client.get(url).status_code
                if status == httpx.codes.OK:
                    return time.monotonic() - began
                answer = f"status {status}"
            except httpx.HTTPError as error:
                answer = str(error) or type(error).__name__
            if time.monotonic() - began > timeout:
                raise _too_late(process, url, timeout, answer)
            _pause(process, pause)
            pause = min(LONGEST_PAUSE, pause * 1.3)


def time_allowed(fit: Fit | None, cards: int) -> float:
    """Seconds until a server must be healthy, by the size of its weights."""
    if fit is None:
        return USUAL
    return max(USUAL, USUAL / 2 + SLOW_DISK * (fit.target + fit.draft) * cards)


def _pause(process: Starting, seconds: float) -> None:
    """Sleep, but not past the process's end or the next phase."""
    until, phase = time.monotonic() + seconds, process.phase
    while time.monotonic() < until and process.phase == phase and not process.stop_asked:
        if process.poll() is not None:
            return
        time.sleep(STEP)


def _check_alive(process: Starting) -> None:
    code = process.poll()
    if process.stop_asked:
        raise Interrupted("stopped before it was ready")
    if code is not None:
        raise died(process.engine, code, process.tail, "before it was ready", process.signs)


def _too_late(process: Starting, url: str, timeout: float, answer: str) -> LaunchError:
    at = f" It was last {process.phase}." if process.phase else ""
    return LaunchError(
        f"{NAMES[process.engine]} was not ready after {timeout:g} s.{at}",
        hint=f"--timeout {max(1, int(timeout * 2))}",
        detail=evidence((*process.tail, f"{url}: {answer}")),
    )
