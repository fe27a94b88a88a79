"""A terminal that is drawn over again and again, until somebody presses q."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

ENDING = (b"q", b"Q", b"\x03", b"\x04")
"""What ends it: q, and Ctrl-C or Ctrl-D where the terminal does not make signals of them."""


@contextmanager
def screen() -> Iterator[Callable[[Sequence[str]], None]]:
    """Draws lines, the first one as a heading; the terminal is as before when the block ends."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw(lines: Sequence[str]) -> None:
            heading, *rest = lines
            text = Text(heading + "\n", style="bold", no_wrap=True, overflow="ellipsis")
            text.append("\n".join(rest), style="not bold")
            live.update(text, refresh=True)

        yield draw


@contextmanager
def keys() -> Iterator[Callable[[float], bool]]:
    """Yields a wait of so many seconds that is True if a key ended it."""
    if not sys.stdin or not sys.stdin.isatty():
        yield _slept
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda pause: _pressed(descriptor, pause)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _slept(pause: float) -> bool:
    time.sleep(pause)
    return False


def _pressed(descriptor: int, pause: float) -> bool:
    until = time.monotonic() + pause
    while (left := until - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            key = os.read(descriptor, 1)
            if not key or key in ENDING:
                return True
    return False
