"""Ctrl-C and SIGTERM while an engine runs: once politely, the second time at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dflash_deploy.launch.watched import Server

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def forwarded(process: Server) -> Iterator[list[int]]:
    """Within the block these signals go to the engine instead of raising here.

    Yields the list of those that came, in order; main thread only.
    """
    came: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            process.terminate()
        else:
            process.kill()

    # one that is ignored was so on purpose: nohup, a shell's background job
    heeded = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heeded}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
