"""The only place that prints: data to stdout, everything else to stderr.

rich is imported to draw on a terminal and for nothing else: a pipe gets aligned plain text.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from dflash_deploy.errors import DFlashError


@dataclass(frozen=True)
class Column:
    """`wrap` columns give way when the terminal is narrow; the others keep their width."""

    title: str
    right: bool = False
    wrap: bool = False


def text(line: str = "") -> None:
    _data(line + "\n")


def _data(part: str) -> None:
    """To stdout. A reader that went away (`dflash list | head`) ends the command, without error."""
    if sys.stdout is None:
        return  # closed before we began
    try:
        sys.stdout.write(part)
        sys.stdout.flush()
    except BrokenPipeError:
        # the interpreter flushes once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise DFlashError(
            f"the output cannot be written: {error.strerror}", hint="write it elsewhere"
        ) from error


def paragraph(line: str, *, indent: int = 0) -> None:
    """A sentence or two, broken between words on a terminal and left whole in a pipe."""
    if on_screen():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        width -= indent
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    text("\n".join(" " * indent + part for part in line.splitlines()))


def fragment(part: str) -> None:
    """A piece of a streamed answer, shown at once."""
    _data(part)


def json(document: Any) -> None:
    import msgspec

    packed = msgspec.json.encode(document)
    text(msgspec.json.format(packed, indent=2).decode())


def thought(part: str) -> None:
    """A piece of the model's reasoning: shown, and not part of the answer."""
    if part:
        _aside(_paint(part, "2"))


def prompt(sign: str) -> None:
    _aside(_paint(sign, "1"))


def phase(name: str) -> None:
    note(_paint(f"{name} ...", "2"))


def on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def on_screen() -> bool:
    """The same for stdout; a stream that was closed before we began is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def draws() -> bool:
    """Whether stdout shows more than letters: bars are for a terminal that knows them."""
    return on_screen() and os.environ.get("TERM") != "dumb"


def note(line: str = "") -> None:
    _aside(line + "\n")


def _aside(part: str) -> None:
    """To stderr, if anybody is still there: a server goes on when its terminal is gone."""
    with contextlib.suppress(OSError, AttributeError):  # gone, or closed before we began
        sys.stderr.write(part)
        sys.stderr.flush()


def warning(line: str) -> None:
    if on_terminal():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns - len("warning: ")
        line = "\n".join(textwrap.fill(part, width) for part in line.splitlines())
    note(_paint("warning: ", "33") + line)


def error(problem: DFlashError, *, as_json: bool) -> None:
    """One line that says what is wrong, its evidence, and the next command to type."""
    if as_json:
        json(
            {
                "error": {
                    "code": problem.code,
                    "message": problem.message,
                    "hint": problem.hint,
                    "detail": problem.detail,
                }
            }
        )
    note(_paint("error: ", "31") + problem.message)
    if problem.detail:
        note("\n" + problem.detail.rstrip())
    if problem.hint:
        note("\nhint: " + problem.hint)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    if on_screen():
        _rich_table(columns, rows)
        return
    widths = [
        max(len(line[i]) for line in (tuple(c.title for c in columns), *rows))
        for i in range(len(columns))
    ]
    for line in (tuple(column.title for column in columns), *rows):
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ]
        text("  ".join(cells).rstrip())


def _rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold",
        )
    for row in rows:
        drawn.add_row(*row)
    Console(highlight=False, markup=False).print(drawn)


def bold(part: str) -> str:
    return _paint(part, "1", stream=sys.stdout)


def _paint(part: str, code: str, *, stream: TextIO | None = None) -> str:
    shown = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or shown is None or not shown.isatty():
        return part
    return f"\x1b[{code}m{part}\x1b[0m"
