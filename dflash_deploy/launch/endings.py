"""How an engine ended, in words: exit codes, signals, and what its last lines say."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from dflash_deploy.errors import DFlashError, LaunchError
from dflash_deploy.launch.signs import Signs, error_in, last_error, points, without_leavings
from dflash_deploy.schema import EngineName

if TYPE_CHECKING:
    from dflash_deploy.launch.watched import Server

NAMES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "transformers": "the embedded engine",
}
SHOWN_LINES = 20
NO_SIGNS = Signs()
MOMENT = 1.0
"""Seconds: connections break a moment before the process is gone."""
LINGER = 10.0
"""Seconds that an engine's API may outlive the core that failed."""


def in_words(code: int) -> str:
    """`ended with exit code 1`, `was killed (SIGKILL), probably out of memory`."""
    number = -code if code < 0 else code - 128
    if number <= 0 or number not in set(signal.Signals):
        return f"ended with exit code {code}"
    if number == signal.SIGKILL:
        return "was killed (SIGKILL), probably because the machine ran out of memory"
    return f"was ended by a signal ({signal.Signals(number).name})"


def died(
    engine: EngineName, code: int, lines: tuple[str, ...], when: str, signs: Signs = NO_SIGNS
) -> LaunchError:
    """The error for an engine that ended by itself; `when`: "before it was ready", say."""
    cause = signs.cause(lines)
    return LaunchError(
        f"{NAMES[engine]} {in_words(code)} {when}".rstrip(),
        hint=cause[1].hint if cause else None,
        detail=evidence(lines, cause[0] if cause else last_error(lines)),
    )


def gone(server: Server, when: str) -> LaunchError | None:
    """What became of a server that answered badly: waits for its end; None where it runs on."""
    try:
        code = server.wait(LINGER if last_error(server.tail) else MOMENT)
    except subprocess.TimeoutExpired:
        return None
    return died(server.engine, code, server.tail, when, server.signs)


def failing(lines: tuple[str, ...]) -> str | None:
    """Evidence of an engine that runs, if it told an error."""
    said = last_error(lines)
    return evidence(lines, said) if said else None


def in_short(error: DFlashError) -> str:
    """Its message, and the line of its evidence that tells most, if that tells anything."""
    said = last_error((error.detail or "").splitlines())
    return f"{error.message}: {error_in(said)}" if said and not points(said) else error.message


def evidence(lines: tuple[str, ...], telling: str | None = None) -> str | None:
    """The last lines, and before them the one that tells most where it is not among them."""
    shown = without_leavings(lines)[-SHOWN_LINES:]
    if telling is not None and telling not in shown:
        shown = (telling, "...", *shown)
    return "\n".join(shown) or None
