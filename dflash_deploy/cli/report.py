"""`dflash report`: a saved benchmark told again, as text, Markdown or a page, or beside another."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.measure.compare import Comparison
    from dflash_deploy.measure.report import Report
    from dflash_deploy.schema import Evidence


PAGES = (".html", ".md")
"""How a report for readers ends."""


class ReportFormat(StrEnum):
    text = "text"
    markdown = "markdown"
    html = "html"


def report(
    file: Annotated[Path, typer.Argument(help="What `dflash bench` wrote.")],
    *,
    format_: Annotated[
        ReportFormat, typer.Option("--format", "-f", help="A page: --format html > FILE.html")
    ] = ReportFormat.text,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier report: what got slower since.")
    ] = None,
    gate: Annotated[bool, typer.Option("--gate", help="With --compare: exit 8 if slower.")] = False,
    registry: RegistryOpt = None,
    json: JsonOpt = False,
) -> None:
    """Show a saved benchmark again: where DFlash pays, and the tables."""
    from dflash_deploy.errors import UsageError
    from dflash_deploy.measure.results import read

    if gate and compare is None:
        raise UsageError("--gate is about --compare", hint=f"dflash report {file} --compare OLD")
    found = read(file)
    if compare is not None:
        _compare(compare, read(compare), found, gate=gate, json=json)
        return
    published = known_of(found, registry)
    if json:
        _output.json(document(found, published))
    elif format_ is ReportFormat.html:
        from dflash_deploy.measure.html import render_html

        _output.page(render_html(found, published).rstrip("\n"))
    elif format_ is ReportFormat.markdown:
        from dflash_deploy.measure.markdown import render_markdown

        _output.text(render_markdown(found, published).rstrip("\n"))
    else:
        show_report(found, published)


def check_page(path: Path | None) -> None:
    """Before an hour of measuring. Raises UsageError for an ending that no form has."""
    from dflash_deploy.errors import UsageError
    from dflash_deploy.measure.results import check_writable

    if path is None:
        return
    if path.suffix not in PAGES:
        raise UsageError(f"{path} is no form of a report", hint="--report FILE.html, or FILE.md")
    check_writable(path, "--report")


def write_page(path: Path, report: Path, found: Report, published: list[Evidence]) -> None:
    """The report in that file, for readers: whole or not at all. Raises UsageError."""
    from dflash_deploy.errors import UsageError, unread
    from dflash_deploy.measure.html import render_html
    from dflash_deploy.measure.markdown import render_markdown
    from dflash_deploy.measure.results import replace

    text = (render_html if path.suffix == ".html" else render_markdown)(found, published)
    try:
        replace(path, text.encode())
    except OSError as error:
        form = "html" if path.suffix == ".html" else "markdown"
        words = shlex.join(["dflash", "report", str(report), "--format", form])
        raise UsageError(
            f"{path} cannot be written: {unread(error)}", hint=f"{words} > {path.name}"
        ) from error
    _output.note(f"for readers: {path}")


def known_of(found: Report, folder: Path | None) -> list[Evidence]:
    """What the registry has on the pair; nothing for a model or a draft that it does not know."""
    from dflash_deploy.errors import UnknownModel
    from dflash_deploy.measure.record import published_for
    from dflash_deploy.registry import load

    try:
        return published_for(load(folder).find(found.model), found.draft)
    except UnknownModel:
        return []


def document(found: Report, published: list[Evidence]) -> dict[str, Any]:
    """The report as it is, with its verdict by today's registry where it carries none."""
    from dflash_deploy.measure import report as reports
    from dflash_deploy.measure.pays import verdict

    return reports.document(found) | {"verdict": found.verdict or verdict(found, published)}


def show_report(found: Report, published: list[Evidence]) -> None:
    """Verdict and tables on a terminal."""
    from dflash_deploy.cli import _bench_table
    from dflash_deploy.measure.pays import verdict
    from dflash_deploy.measure.tables import facts

    for line in found.verdict or verdict(found, published):
        _output.paragraph(line, style="bold" if line.startswith("SYNTHETIC") else "")
    _bench_table.show(found, published)
    _output.text()
    for name, value in facts(found):
        _output.paragraph(value, label=f"{name.lower():9} ", indent=2)


def _compare(path: Path, old: Report, new: Report, *, gate: bool, json: bool) -> None:
    from dflash_deploy.measure import compare as comparing

    found = comparing.compare(old, new)
    if json and not (gate and (found.slower or not found.changes)):
        _output.json(comparison_document(found))
    elif not json:
        show_comparison(found)
    if gate:
        comparing.gate(found, str(path))


def comparison_document(found: Comparison) -> dict[str, Any]:
    import msgspec

    changes = [
        {**msgspec.to_builtins(change), "state": change.state} for change in found.changes
    ]  # fmt: skip
    return {"changes": changes, "left_out": found.left_out, "notes": found.notes}


def show_comparison(found: Comparison) -> None:
    from dflash_deploy.cli._bench_table import show_table
    from dflash_deploy.measure.compare import comparison_table

    for line in found.notes:
        _output.paragraph(f"note: {line}")
    if found.changes:
        show_table(comparison_table(found))
    for line in found.left_out:
        _output.warning(f"not compared: {line}")
