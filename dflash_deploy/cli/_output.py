"""The only place that prints: data to stdout, everything else to stderr.

rich is imported to draw on a terminal, and to know how wide letters beyond ASCII are: a pipe gets
aligned plain text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from dflash_deploy.cli._repeated import with_registry
from dflash_deploy.errors import DFlashError

Style = Literal["", "bold", "dim"]
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIDEST = 100
"""Columns of a paragraph at most: longer lines are hard to follow."""
_WIDE_ENOUGH = 60
"""Columns of a terminal where text stands behind its labels."""
_NARROWEST = 20
"""Columns that a wrapped cell needs to be readable."""
_registry: str | None = None


def repeat_registry(folder: str | None) -> None:
    """From now on, commands in notes, warnings and errors name this folder too."""
    global _registry  # noqa: PLW0603 - of the one command that this process runs
    _registry = folder


@dataclass(frozen=True)
class Column:
    """`wrap` columns give way when the terminal is narrow; the others keep their width."""

    title: str
    right: bool = False
    wrap: bool = False
    extra: int = 0
    """Above 0: left out where there is no room for it, the highest first."""


def spell_out() -> None:
    """What stdout's encoding has no letter for is told by its number, as stderr tells it."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def text(line: str = "") -> None:
    _data(line + "\n")


def page(document: str) -> None:
    """HTML that says it is UTF-8, which stdout may not be: what is beyond ASCII, by its number."""
    encoding = (sys.stdout and sys.stdout.encoding) or "utf-8"
    same = encoding.lower().replace("-", "") == "utf8"
    text(document if same else document.encode("ascii", "xmlcharrefreplace").decode())


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


def paragraph(line: str, *, indent: int = 0, label: str = "", style: Style = "") -> None:
    """A sentence or two, broken between words on a terminal and left whole in a pipe.

    Further lines stand under the first one, behind its `label` if there is room for that.
    """
    if label.isspace() and on_screen() and _columns() < _WIDE_ENOUGH:
        indent, label = indent + 2, ""
    for number, part in enumerate(_broken(label + line, indent, len(label))):
        named = part.startswith(label) and number == 0
        before, rest = (label, part[len(label) :]) if named else ("", part)
        text(" " * indent + before + _styled(rest, style))


def _broken(line: str, indent: int, hang: int) -> list[str]:
    if not on_screen():
        return [line]
    import textwrap

    room = min(_columns(), WIDEST) - indent
    hang = hang if _columns() >= _WIDE_ENOUGH else min(hang, 2)
    parts = textwrap.wrap(
        line, max(room, 1), subsequent_indent=" " * hang,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    if hang and len(parts) > 1 and len(parts[0]) < hang:
        # a path that is wider than the terminal: its label is not left alone above it
        parts[:2] = [parts[0].ljust(hang) + parts[1].lstrip()]
    return parts or [""]


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def fragment(part: str) -> None:
    """A piece of a streamed answer, shown at once."""
    _data(part)


def json(document: Any) -> None:
    import msgspec

    packed = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    text(packed if _sayable(packed) else _in_ascii(packed))


def _in_ascii(packed: str) -> str:
    from json import dumps, loads

    return dumps(loads(packed), indent=2)


def thought(part: str) -> None:
    """A piece of the model's reasoning: shown, and not part of the answer."""
    if part:
        _aside(_paint(part, "2"))


def prompt(sign: str) -> None:
    _aside(_paint(sign, "1"))


def phase(name: str) -> None:
    note(_paint(f"{name} ...", "2"))


def status(line: str) -> None:
    """One line on a terminal that the next one is drawn over; empty: it goes away."""
    import shutil

    room = shutil.get_terminal_size().columns - 1
    _aside("\r\x1b[2K" + _paint(line[:room], "2"))


def on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def redraws() -> bool:
    """Whether stderr can draw over what stands there; elsewhere a line is said once."""
    return on_terminal() and os.environ.get("TERM") != "dumb"


def on_screen() -> bool:
    """The same for stdout; a stream that was closed before we began is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def draws() -> bool:
    """Whether stdout shows more than letters: bars are for a terminal that knows them."""
    if not on_screen() or os.environ.get("TERM") == "dumb":
        return False
    return _sayable("█")


def _sayable(part: str) -> bool:
    """Whether stdout's encoding has all these letters."""
    try:
        part.encode((sys.stdout and sys.stdout.encoding) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def suggested(line: str) -> str:
    """With the `--registry` of this command in each one of ours that it names."""
    return with_registry(line, _registry)


def note(line: str = "") -> None:
    _aside(suggested(line) + "\n")


def _aside(part: str) -> None:
    """To stderr, if anybody is still there: a server goes on when its terminal is gone."""
    with contextlib.suppress(OSError, AttributeError):  # gone, or closed before we began
        sys.stderr.write(part)
        sys.stderr.flush()


def warning(line: str) -> None:
    line = with_registry(line, _registry)
    if on_terminal():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns - len("warning: ")
        line = "\n".join(
            textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False)
            for part in line.splitlines()
        )
    note(_paint("warning: ", "33") + _tame(line))


def error(problem: DFlashError, *, as_json: bool) -> None:
    """One line that says what is wrong, its evidence, and the next command to type."""
    hint = with_registry(problem.hint, _registry) if problem.hint else None
    detail = with_registry(problem.detail, _registry) if problem.detail else None
    if as_json:
        said = {"code": problem.code, "message": problem.message, "hint": hint, "detail": detail}
        # where stdout has no room for it, stderr tells it all the same
        with contextlib.suppress(DFlashError):
            json({"error": said})
    note(_paint("error: ", "31") + _tame(problem.message))
    if detail:
        note("\n" + _tame(detail.rstrip()))
    if hint:
        note("\nhint: " + _tame(hint))


def _tame(said: str) -> str:
    """Without what would steer the terminal: a message may quote an argument, a file, a log."""
    plain = _ESCAPE.sub("", said)
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in plain)


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, dim: Collection[int] = ()
) -> list[str]:
    """Aligned columns. On a terminal too narrow for them, a few lines for each row.

    `dim`: numbers of rows that matter less. Returns the titles that there was room for.
    """
    columns, rows, widths = _fitting(columns, rows)
    if not on_screen() or _total(widths) <= _columns():
        _aligned(columns, rows, widths, dim)
    elif _total(_least(columns, widths)) <= _columns():
        _rich_table(columns, rows)
    else:
        _records(columns, rows)
    return [column.title for column in columns]


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[Column], Sequence[Sequence[str]], list[int]]:
    """Leave out `extra` columns until there is room for the others."""
    lines = [[column.title for column in columns], *rows]
    widths = [max(shown_width(line[i]) for line in lines) for i in range(len(columns))]
    kept = list(range(len(columns)))
    for rank in sorted({column.extra for column in columns if column.extra}, reverse=True):
        if on_screen() and _total([widths[i] for i in kept]) > _columns():
            kept = [i for i in kept if columns[i].extra != rank]
    fewer = [[row[i] for i in kept] for row in rows]
    return [columns[i] for i in kept], fewer, [widths[i] for i in kept]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _least(columns: Sequence[Column], widths: Sequence[int]) -> list[int]:
    return [
        min(width, _NARROWEST) if column.wrap else width
        for column, width in zip(columns, widths, strict=True)
    ]


def _aligned(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    dim: Collection[int],
) -> None:
    for number, line in enumerate([[column.title for column in columns], *rows], -1):
        cells = [
            _filled(cell, width, right=column.right)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ]
        style: Style = "bold" if number < 0 else "dim" if number in dim else ""
        text(_styled("  ".join(cells).rstrip(), style))


def _filled(cell: str, width: int, *, right: bool) -> str:
    room = " " * (width - shown_width(cell))
    return room + cell if right else cell + room


def shown_width(line: str) -> int:
    """Columns of a terminal that it takes: an ideograph takes two, an accent by itself none."""
    if line.isascii():
        return len(line)
    from rich.cells import cell_len

    return cell_len(line)


def shortened(line: str, room: int) -> str:
    """As much of it as so many columns show."""
    if shown_width(line) <= room:
        return line
    kept, taken = "", 0
    for sign in line:
        taken += shown_width(sign)
        if taken > room - 3:
            break
        kept += sign
    return kept + "..."


def _records(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Each row by itself: its first cell, then what else there is, with the columns' titles."""
    for row in rows:
        # a number says nothing without its title
        paragraph(f"{columns[0].title} {row[0]}" if columns[0].right else row[0], style="bold")
        line = ""
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if not column.title or cell in ("", "-"):
                continue
            pair = f"{column.title}: {cell}"
            if line and len(line) + 2 + len(pair) > _columns() - 2:
                paragraph(line, indent=2)
                line = ""
            line = f"{line}  {pair}" if line else pair
        if line:
            paragraph(line, indent=2)


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
    return _styled(part, "bold")


def _styled(part: str, style: Style) -> str:
    codes = {"bold": "1", "dim": "2"}
    return _paint(part, codes[style], stream=sys.stdout) if style and part else part


def _paint(part: str, code: str, *, stream: TextIO | None = None) -> str:
    shown = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or shown is None or not shown.isatty():
        return part
    return f"\x1b[{code}m{part}\x1b[0m"
