"""`dflash doctor`: what this machine has, what it lacks, and the command that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.doctor.finding import Finding

AREA, STATE = 11, 9
"""Columns, with the blanks behind them."""


def doctor(*, registry: RegistryOpt = None, json: JsonOpt = False) -> None:
    """Say whether a server can start here, and what mends it if not.

    GPUs, engines, Docker, the hub, disk, caches, limits, and whose `dflash` this is. A note keeps
    nothing; a problem does.

    Exit codes: 0 ready; else the first problem's: 4 GPU or limits, 5 engine, 6 hub or disk.
    """
    from dflash_deploy.doctor.examine import examine
    from dflash_deploy.hub.endpoint import check_endpoint
    from dflash_deploy.registry import load

    check_endpoint()
    found = examine(load(registry))
    if json:
        _output.json(found)
    else:
        area = None
        for finding in found.findings:
            _show(finding, "" if finding.area == area else finding.area)
            area = finding.area
        _output.text()
        _output.paragraph(found.verdict.text, style="bold")
        if found.verdict.next:
            _output.paragraph(found.verdict.next, label="-> ")
    raise typer.Exit(found.verdict.exit_code)


def _show(finding: Finding, area: str) -> None:
    """The area once, the state in words, and what to do on a line of its own."""
    label = area.ljust(AREA) + finding.state.ljust(STATE)
    style: _output.Style = "bold" if finding.state == "problem" else ""
    _output.paragraph(finding.text, label=label, style=style)
    if finding.remedy:
        _output.paragraph(finding.remedy, label="-> ".rjust(AREA + STATE))
