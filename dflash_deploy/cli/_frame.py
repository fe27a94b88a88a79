"""What `dflash top` shows: a few lines for each server, 80 columns wide. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflash_deploy.launch.seen import Seen
    from dflash_deploy.measure.live import Numbers

COLUMNS = ("ACCEPT", "TOK/S", "TTFT", "TPOT", "RUN", "WAIT", "KV")
WIDTHS = (6, 6, 6, 6, 3, 4, 4)
NAME, STATE = 22, 80 - 22 - sum(WIDTHS) - 2 * 8
"""The columns that are left of 80 when the gaps are taken off."""
BY_POSITION = "  accepted by position, %: "


def heading() -> str:
    cells = [title.rjust(size) for title, size in zip(COLUMNS, WIDTHS, strict=True)]
    return "  ".join(["NAME".ljust(NAME), *cells, "STATE"])


def lines(seen: Sequence[Seen]) -> list[str]:
    """The table, with what does not fit a cell below its server."""
    return [heading(), *(part for each in seen for part in _server(each))]


def line(each: Seen) -> str:
    """One server in one line, however wide."""
    return "  ".join([each.record.name.ljust(NAME), *_cells(each.numbers), each.state])


def _server(each: Seen) -> list[str]:
    name, state = _cut(each.record.name, NAME), each.state
    rest = []
    if len(state) > STATE:
        state, rest = "", [_cut(f"  {state}", 80)]
    if places := each.numbers.acceptance_by_position:
        rest.append(_cut(BY_POSITION + " ".join(f"{100 * share:.0f}" for share in places), 80))
    return ["  ".join([name.ljust(NAME), *_cells(each.numbers), state]).rstrip(), *rest]


def _cells(numbers: Numbers) -> list[str]:
    cells = (
        _plain(numbers.acceptance_length, "{:.2f}"),
        _plain(numbers.tokens_per_second, "{:.0f}"),
        seconds(numbers.ttft_seconds),
        seconds(numbers.tpot_seconds),
        _plain(numbers.running, "{}"),
        _plain(numbers.waiting, "{}"),
        _plain(numbers.kv_usage, "{:.0%}"),
    )
    return [cell.rjust(size) for cell, size in zip(cells, WIDTHS, strict=True)]


def seconds(number: float | None) -> str:
    """`8.4ms`, `210ms`, `1.2s`, `75s`: at most six signs up to hours."""
    if number is None:
        return "-"
    if number < 0.01:
        return f"{1000 * number:.1f}ms"
    if number < 1:
        return f"{1000 * number:.0f}ms"
    return f"{number:.1f}s" if number < 10 else f"{number:.0f}s"


def _plain(number: float | None, shape: str) -> str:
    return "-" if number is None else shape.format(number)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"
