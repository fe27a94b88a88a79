"""Published numbers as tables: a row a task and block size, a column a load. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dflash_deploy.schedule import in_words
from dflash_deploy.schema import Evidence, Measurement

BAR = 12
"""Characters of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def published_table(
    evidence: Evidence, *, bars: bool = False
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows. A cell is a speed-up over plain decoding, or tokens a second.

    Draft tokens that follow the load are no block: BLOCK says `*` there, and `schedules` the rest.

    `bars` adds one a row, for its first load: as long as the number is large in this table. A row
    alone has nothing to be compared with, and gets none.
    """
    loads = sorted({_load(row) for row in evidence.results if _gain(row)})
    groups = _groups(evidence)
    header = ["TASK", "BLOCK", "ACCEPTED", *(f"AT {load}" if load else "GAIN" for load in loads)]
    rows = [_row(task, block, found, loads) for (task, block), found in groups.items()]
    if bars and len(rows) > 1:
        lengths = _lengths(groups.values())
        longest = max(lengths, default=0)
        rows = [(*row, bar(length, longest)) for row, length in zip(rows, lengths, strict=True)]
        header.append("")
    return header, rows


def schedules(evidence: Evidence) -> dict[str, str]:
    """What each mark of the table stands for, in words: `15 up to 8 requests, 7 up to 64`."""
    found = dict.fromkeys(in_words(row.schedule) for row in evidence.results if row.schedule)
    return {"*" * number: words for number, words in enumerate(found, 1)}


def accepted_table(
    evidence: Evidence, *, bars: bool = False
) -> tuple[list[str], list[tuple[str, ...]]] | None:
    """Acceptance lengths at each load; None where they differ in no row.

    `bars`: for the first load, as in the other table.
    """
    groups = _groups(evidence)
    lengths = {
        key: {_load(row): row.acceptance_length for row in rows if row.acceptance_length}
        for key, rows in groups.items()
    }
    lengths = {key: by_load for key, by_load in lengths.items() if by_load}
    loads = sorted({load for by_load in lengths.values() for load in by_load})
    if all(len({*by_load.values()}) < 2 for by_load in lengths.values()):
        return None
    header = ["TASK", "BLOCK", *(f"AT {load}" if load else "ANY" for load in loads)]
    rows = [
        (task, block, *(f"{by_load[at]:g}" if at in by_load else "" for at in loads))
        for (task, block), by_load in lengths.items()
    ]
    if bars and len(rows) > 1:
        first = [by_load[min(by_load)] for by_load in lengths.values()]
        rows = [(*row, bar(length, max(first))) for row, length in zip(rows, first, strict=True)]
        header.append("")
    return header, rows


def _groups(evidence: Evidence) -> dict[tuple[str, str], list[Measurement]]:
    """Rows of one task, and of one block size or schedule."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    known = schedules(evidence)
    for row in evidence.results:
        block = _scheduled(row, known) or f"{row.block_size or evidence.block_size or ''}"
        groups.setdefault((row.task, block), []).append(row)
    return groups


def _scheduled(row: Measurement, known: Mapping[str, str]) -> str | None:
    return next((mark for mark, words in known.items() if words == in_words(row.schedule)), None)


def bar(value: float, longest: float, width: int = BAR) -> str:
    """`value` as a bar, in eighths of a character; empty for nothing."""
    if longest <= 0 or value <= 0:
        return ""
    eighths = round(8 * width * value / longest)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _lengths(groups: Iterable[list[Measurement]]) -> list[float]:
    """What the bars show, the same quantity in every row: gains, else tokens a second, else
    accepted tokens; each at the row's lowest load, and 0 where a row has none.
    """
    ordered = [sorted(rows, key=_load) for rows in groups]
    quantities = (speedup, lambda row: row.tokens_per_second, lambda row: row.acceptance_length)
    for quantity in quantities:
        found = [next((value for row in rows if (value := quantity(row))), 0.0) for rows in ordered]
        if any(found):
            return found
    return [0.0] * len(ordered)


def speedup(row: Measurement) -> float | None:
    """Over plain decoding: as published, or from the two rates that were."""
    if row.speedup is not None:
        return row.speedup
    if row.tokens_per_second and row.baseline_tokens_per_second:
        return round(row.tokens_per_second / row.baseline_tokens_per_second, 2)
    return None


def _load(row: Measurement) -> int:
    return row.concurrency or 0


def _row(task: str, block: str, rows: list[Measurement], loads: list[int]) -> tuple[str, ...]:
    by_load = sorted(rows, key=_load)
    accepted = next((row.acceptance_length for row in by_load if row.acceptance_length), None)
    gains = {_load(row): _gain(row) for row in rows if _gain(row)}
    cells = [gains.get(load, "") for load in loads]
    return (task, block, f"{accepted:g}" if accepted else "", *cells)


def _gain(row: Measurement) -> str:
    gain = speedup(row)
    if gain is not None:
        return f"{gain:g}x"
    return f"{row.tokens_per_second:g}/s" if row.tokens_per_second else ""
