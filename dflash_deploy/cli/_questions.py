"""The questions of `dflash chat`: typed, pasted or piped."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from types import ModuleType

from dflash_deploy.cli import _output

SIGN = "> "


def typed() -> bool:
    """Whether somebody sits there; a stdin that was closed before we began is None."""
    return sys.stdin is not None and sys.stdin.isatty()


def questions() -> Iterator[str]:
    """Until the end of input. A Ctrl-C at the prompt is the caller's."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    editor = _editor() if typed() else None
    while line := _line(editor):
        if line.strip():
            yield line.strip()


def _line(editor: ModuleType | None) -> str:
    """A line, or a paste of several; empty at the end of input."""
    if not typed():
        return "" if sys.stdin is None else sys.stdin.readline()
    while True:
        try:
            if editor:
                return input(SIGN) + "\n"
            _output.prompt(SIGN)
            line = sys.stdin.readline()
        except EOFError:
            line = ""
        except KeyboardInterrupt:
            if not editor or not editor.get_line_buffer():
                raise
            _output.note()  # that line alone is given up, as in a shell
            continue
        if not line:
            _output.note()  # what comes next does not stand behind the sign
        return line


def _editor() -> ModuleType | None:
    """readline, which tells a paste from typing; `input` asks it where the screen is the terminal.

    Python switches that off for its own prompt. An editline in its place knows of no paste.
    """
    if not _output.on_screen() or os.environ.get("TERM") == "dumb":
        return None
    try:
        import readline
    except ImportError:
        return None
    readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
