"""How an engine ended, in words: exit codes, signals, and what its last lines say."""

from __future__ import annotations

import re
import signal

from dflash_deploy.errors import LaunchError
from dflash_deploy.schema import EngineName

NAMES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "transformers": "the embedded engine",
}
SHOWN_LINES = 20
HINTS = (
    (
        re.compile(r"CUDA out of memory|OutOfMemoryError|No available memory for the cache"),
        "not enough GPU memory: lower --context or --concurrency, or add cards",
    ),
    (
        re.compile(r"unrecognized arguments|ambiguous option|no such option"),
        "this release of the engine does not know that flag: see what comes after `--`",
    ),
    (
        re.compile(r"error: the target .* could not be loaded"),
        "remove the folder it names: the next start fetches the weights again",
    ),
    (re.compile(r"[Aa]ddress already in use"), "--port NNNN"),
    (
        re.compile(r"GatedRepoError|gated repo|401 Client Error"),
        "accept the licence on the model's page, then `export HF_TOKEN=...`",
    ),
)


def in_words(code: int) -> str:
    """`ended with exit code 1`, `was killed (SIGKILL), probably out of memory`."""
    number = -code if code < 0 else code - 128
    if number <= 0 or number not in set(signal.Signals):
        return f"ended with exit code {code}"
    if number == signal.SIGKILL:
        return "was killed (SIGKILL), probably because the machine ran out of memory"
    return f"was ended by a signal ({signal.Signals(number).name})"


def died(engine: EngineName, code: int, lines: tuple[str, ...], when: str) -> LaunchError:
    """The error for an engine that ended by itself; `when`: "before it was ready", say."""
    hints = (hint for pattern, hint in HINTS for line in lines if pattern.search(line))
    return LaunchError(
        f"{NAMES[engine]} {in_words(code)} {when}".rstrip(),
        hint=next(hints, None),
        detail="\n".join(lines[-SHOWN_LINES:]) or None,
    )
