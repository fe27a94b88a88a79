"""A report as one HTML page that needs nothing else: text, tables and figures drawn in place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dflash_deploy.measure import plots
from dflash_deploy.measure.pays import verdict
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tables import draft_of, facts, tables
from dflash_deploy.resources import templates_root
from dflash_deploy.schema import Evidence


def render_html(report: Report, published: Sequence[Evidence] = ()) -> str:
    """The page. Whatever a report quotes is escaped, and a value that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(templates_root()), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        report=report,
        verdict=report.verdict or verdict(report, published),
        tables=tables(report, published),
        figures=plots.figures(report, published),
        draft=draft_of(report),
        facts=facts(report),
        commands=[(arm, shlex.join(arm.argv)) for arm in report.ran if arm.argv],
        plots=plots,
    )
