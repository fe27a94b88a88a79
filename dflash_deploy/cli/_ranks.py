"""One of several processes of a `torchrun`: what all of them meet, the first one says."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout

PATIENCE = 5.0
"""Seconds in which the first one says it as well, and the launcher ends all others."""
SHARED = ("bench", "tune", "verify")
"""The commands that know of a torchrun; a server that runs on each of several machines does not."""
BY_SIGNAL = 128


def number(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """This process's, from 0; 0 too for whoever speaks for himself."""
    rank = environ.get("RANK", "")
    together = environ.get("WORLD_SIZE", "1") != "1" and argv[:1] and argv[0] in SHARED
    return int(rank) if together and rank.isdecimal() else 0


def quietly(rank: int, command: Callable[[], int]) -> int:
    """Run it; what it printed is shown if it failed and, after a while, nobody has ended it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command()
    if 0 < code < BY_SIGNAL:
        time.sleep(PATIENCE)
        sys.stdout.write(out.getvalue())
        sys.stderr.write(f"process {rank}, and not the first:\n{err.getvalue()}")
    return code
