"""`dflash explain`: a published command, flag by flag, and the right one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output
from dflash_deploy.errors import DFlashError, UsageError, unread
from dflash_deploy.named_file import start_of

if TYPE_CHECKING:
    from dflash_deploy.explain.report import Report

COLUMNS = (
    _output.Column("VERDICT"),
    _output.Column("PART", wrap=True),
    _output.Column("WHY", wrap=True),
)
_EXAMPLE = "dflash explain -- vllm serve openai/gpt-oss-20b"


def explain(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="A published command.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Text with commands; - reads stdin.")
    ] = None,
    engine_version: opt.VersionOpt = None,
    gpu: opt.GpuOpt = None,
    registry: opt.RegistryOpt = None,
    json: opt.JsonOpt = False,
) -> None:
    """Say what is wrong in a published command; print the right one.

    Flag by flag: what is stale, wrong or missing.

    Ends with 0 where there is a right one for every command; else as `plan` would of the first
    without one: 3 for a model that is not in the registry, 4 for what does not fit or work.
    """
    from dflash_deploy import hardware
    from dflash_deploy.explain.config_file import read_file
    from dflash_deploy.explain.manifest import pasted
    from dflash_deploy.explain.report import reports
    from dflash_deploy.explain.shell import from_argv
    from dflash_deploy.registry import load

    known = load(registry)
    if (file is None) == (not words):
        raise UsageError("one command after `--`, or one --file", hint=_EXAMPLE)
    one = words[0] if words and len(words) == 1 and len(words[0].split()) > 1 else None
    text = _text(file) if file is not None else one
    commands = from_argv(words or []) if text is None else pasted(text)
    cards = hardware.parse(gpu, known.gpus) if gpu is not None else hardware.probe(known.gpus)
    made = reports(commands, known, engine_version, cards, read_file)
    if not made:
        raise UsageError(
            "none of this starts a DFlash server: vllm serve, sglang serve, docker run, docker"
            " model run, dflash.benchmark and pip install are understood",
            hint=_EXAMPLE,
        )
    if json:
        _output.json({"commands": [_document(report) for report in made]})
    else:
        for report in made:
            _show(report)
    without = [report.right for report in made if isinstance(report.right, DFlashError)]
    if without:
        raise typer.Exit(without[0].exit_code)


def _text(file: Path) -> str:
    from dflash_deploy.explain.shell import LARGEST

    most = 4 * LARGEST + 1  # bytes of UTF-8; what is longer is refused, not read
    try:
        data = sys.stdin.buffer.read(most) if str(file) == "-" else start_of(file, most)
        return data.decode("utf-8", errors="strict" if len(data) < most else "replace")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {unread(error)}",
            hint="dflash explain --file -, with the text on the standard input",
        ) from error


def _show(report: Report) -> None:
    _output.text(_output.bold(report.title))
    if report.findings:
        rows = [(item.verdict, item.part, item.message) for item in report.findings]
        _output.table(COLUMNS, rows)
    if isinstance(report.right, DFlashError):
        _output.paragraph(f"no right command: {report.refused}", indent=2)
        if report.hint:
            _output.paragraph("hint: " + _output.suggested(report.hint), indent=2)
    elif report.right_text:
        release = f", for {report.right.engine} {report.right.version}" if report.right else ""
        _output.text(_output.bold(f"the right one{release}:"))
        _output.text(report.right_text)
    _output.text()


def _document(report: Report) -> dict[str, Any]:
    plan = None if isinstance(report.right, DFlashError) else report.right
    return {
        "kind": report.kind, "engine": report.engine, "engine_version": report.version,
        "target": report.target, "findings": report.findings, "right": report.right_text,
        "right_version": plan.version if plan else None, "refused": report.refused,
        "hint": report.hint and _output.suggested(report.hint),
    }  # fmt: skip
