"""How an engine ended, in words: exit codes, signals, and what its last lines say."""

from __future__ import annotations

import signal

from dflash_deploy.errors import LaunchError
from dflash_deploy.launch.signs import Signs, last_error
from dflash_deploy.schema import EngineName

NAMES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "transformers": "the embedded engine",
}
SHOWN_LINES = 20
NO_SIGNS = Signs()


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


def evidence(lines: tuple[str, ...], telling: str | None = None) -> str | None:
    """The last lines, and before them the one that tells most where it is not among them."""
    shown = lines[-SHOWN_LINES:]
    if telling is not None and telling not in shown:
        shown = (telling, "...", *shown)
    return "\n".join(shown) or None
