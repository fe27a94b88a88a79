"""Why uv could not do something, in a line of ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from dflash_deploy.envs.uv import Ended
from dflash_deploy.errors import DownloadError


class Cause(NamedTuple):
    words: str
    """What uv says then, as a pattern; the first that is found counts."""
    why: str
    hint: str


CAUSES = (
    Cause(
        r"No space left on device|os error 28|Disk quota exceeded",
        "the disk is full",
        "free some of it, or XDG_DATA_HOME and UV_CACHE_DIR on a larger disk",
    ),
    Cause("network was disabled", "uv may not use the network (UV_OFFLINE)", "unset UV_OFFLINE"),
    Cause(
        "No interpreter found",
        "there is no Python that it runs on",
        "uv python install 3.12, then again",
    ),
    Cause(
        "no version of|not found in the (package registry|provided)|was not found in",
        "the package index does not have it",
        "see UV_INDEX and uv.toml: which index is asked?",
    ),
    Cause(
        "No solution found",
        "its requirements contradict each other here",
        "another release, or the settings of uv that pin something",
    ),
    Cause(
        "[Hh]ash mismatch", "a file is not what the index says it is", "uv cache clean, then again"
    ),
    Cause(
        "invalid peer certificate|UnknownIssuer",
        "the package index has a certificate that is not trusted",
        "export UV_SYSTEM_CERTS=1, then the same command again",
    ),
    Cause(
        r"\b40[137]\b",
        "the package index refuses access",
        "see UV_INDEX and uv.toml: its credentials",
    ),
    Cause(
        "error sending request|[Ff]ailed to fetch|[Ff]ailed to download|dns error|timed? out",
        "the package index cannot be reached",
        "the same command again, where there is a network",
    ),
)


def trouble(what: str, ended: Ended) -> DownloadError:
    """The error for a command of uv's that failed, with its last words as the evidence."""
    words = [line for line in ended.lines if line.strip()]
    detail = "\n".join(words[-12:]) or None
    if ended.code > 128:
        return DownloadError(
            f"{what}: uv was killed by signal {ended.code - 128}",
            hint="the same command again; out of memory is a frequent cause",
            detail=detail,
        )
    text = "\n".join(words)
    for cause in CAUSES:
        if re.search(cause.words, text):
            return DownloadError(f"{what}: {cause.why}", hint=cause.hint, detail=detail)
    first = next((line for line in words if line.startswith("error:")), "error: no reason given")
    return DownloadError(
        f"{what}: uv ended with {ended.code}: {first.removeprefix('error:').strip()}",
        hint="the same command again",
        detail=detail,
    )
