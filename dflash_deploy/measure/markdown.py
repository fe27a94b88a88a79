"""A report as Markdown, in the shape of a model card: made to be pasted into one. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dflash_deploy.measure.pays import verdict
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tables import Table, facts, tables
from dflash_deploy.schema import Evidence


def render_markdown(report: Report, published: Sequence[Evidence] = ()) -> str:
    """The verdict, the tables, and what they were measured with."""
    return "\n".join(_lines(report, published)).rstrip() + "\n"


def _lines(report: Report, published: Sequence[Evidence]) -> Iterator[str]:
    yield f"# {_plain(report.model)} with DFlash on {report.engine}"
    yield ""
    for line in report.verdict or verdict(report, published):
        yield f"- **{_plain(line)}**" if line.startswith("SYNTHETIC") else f"- {_plain(line)}"
    for table in tables(report, published):
        yield from _table(table, synthetic=report.synthetic)
    yield from ("", "## Measured with", "")
    for name, value in facts(report):
        yield f"- {name}: {_plain(value)}"
    yield from _commands(report)


def _table(table: Table, *, synthetic: bool) -> Iterator[str]:
    yield from ("", f"## {_plain(table.title)}{' (synthetic acceptance)' if synthetic else ''}", "")
    yield _row(table.header)
    yield "|---" * len(table.header) + "|"
    yield from (_row(row) for row in table.rows)
    if table.note:
        yield from ("", f"{table.note[0].upper()}{table.note[1:]}.")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(cell).replace('|', '&#124;') for cell in cells)} |"


def _commands(report: Report) -> Iterator[str]:
    """How each server was started; nothing for those that somebody else started."""
    started = [arm for arm in report.ran if arm.argv]
    if not started:
        return
    yield from ("", "## Servers", "")
    for arm in started:
        ready = f" (ready after {arm.ready_seconds:.0f} s)" if arm.ready_seconds else ""
        environment = [f"{name}={value}" for name, value in arm.env.items()]
        line = " ".join([*map(shlex.quote, environment), shlex.join(arm.argv)])
        yield from (f"{_plain(arm.name)}{ready}:", "", f"    {line}", "")


def _plain(text: str) -> str:
    """On one line, and nothing of it a tag: names and reasons come from elsewhere."""
    return " ".join(text.split()).replace("<", "&lt;")
