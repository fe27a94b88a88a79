"""A report as it grows: a run added, kept in its file at once, and read again."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.errors import UsageError, unread
from dflash_deploy.measure.report import BENCH_SCHEMA, Arm, Cell, Report, Run, document
from dflash_deploy.measure.turns import Turn
from dflash_deploy.named_file import start_of

LARGEST = 256 << 20
ROOM = 1 << 20
"""Bytes that a folder needs for a report: a few kilobytes a run."""
FAMILY = BENCH_SCHEMA.partition("/")[0] + "/"
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What steers a terminal: control characters but tabs and ends of lines."""


def with_run(report: Report, turn: Turn, run: Run) -> Report:
    """The report with one run more, in the cell that is its own."""
    key = (turn.arm, turn.load, turn.workload)
    cells = list(report.cells)
    for at, cell in enumerate(cells):
        if (cell.arm, cell.load, cell.workload) == key:
            cells[at] = msgspec.structs.replace(cell, runs=(*cell.runs, run))
            break
    else:
        cells.append(Cell(arm=turn.arm, load=turn.load, workload=turn.workload, runs=(run,)))
    return msgspec.structs.replace(report, cells=tuple(cells))


def with_arm(report: Report, arm: Arm) -> Report:
    """What its start taught of an arm, in place of what was known before."""
    arms = tuple(arm if each.name == arm.name else each for each in report.arms)
    return msgspec.structs.replace(report, arms=arms)


def save(report: Report, path: Path) -> None:
    """Whole or not at all: a reader, or a crash, never meets half a file. Raises UsageError."""
    packed = msgspec.json.format(msgspec.json.encode(document(report)), indent=2)
    try:
        replace(path, packed + b"\n")
    except OSError as error:
        raise UsageError(
            f"the results cannot be written to {path}: {unread(error)}",
            hint="--output FILE, in a folder of yours with room for it",
        ) from error


def replace(path: Path, data: bytes) -> None:
    """By a file beside it, which is gone again whatever happens; a link still leads there."""
    path = Path(os.path.realpath(path))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dflash-", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(data)
            file.close()
            written.chmod(0o666 & ~_umask())
            written.replace(path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


class _Versioned(msgspec.Struct):
    """What is looked at first: another version may have other fields."""

    schema: str = ""


def read(path: Path) -> Report:
    """Raises UsageError for what is no report of a benchmark."""
    try:
        data = start_of(path, LARGEST).removeprefix(codecs.BOM_UTF8)  # some editors write it
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {unread(error)}", hint="ls *.json") from error
    try:
        said = msgspec.json.decode(data, type=_Versioned).schema
        if said and not said.startswith(FAMILY):
            raise msgspec.ValidationError(f"it is of {said}")
        other = said.startswith(FAMILY) and said != BENCH_SCHEMA
        report = None if other else _tame(msgspec.json.decode(data, type=Report))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} is no report of `dflash bench`: {error}",
            hint="the file that `dflash bench --output` wrote",
        ) from error
    if report is None:
        raise UsageError(
            f"{path} has the schema {said}, and this release reads {BENCH_SCHEMA}",
            hint="pip install --upgrade dflash-deploy",
        )
    if (fault := _twice(report) or _fault(report)) is not None:
        raise UsageError(
            f"{path} was changed since `dflash bench` wrote it: {fault}", hint="the file as it was"
        )
    return report


def _tame(report: Report) -> Report:
    """For a terminal: a report may be a stranger's, or quote what a server said."""
    return msgspec.convert(_tamed(msgspec.to_builtins(report)), Report)


def _tamed(value: Any) -> Any:
    if isinstance(value, str):
        return _STEERS.sub("?", value)
    if isinstance(value, dict):
        return {_tamed(name): _tamed(each) for name, each in value.items()}
    return [_tamed(each) for each in value] if isinstance(value, list | tuple) else value


def _fault(report: Report) -> str | None:
    """What no benchmark writes, and nothing can be told of."""
    arms, asked = ({each.name for each in of} for of in (report.arms, report.workloads))
    for cell in report.cells:
        if cell.arm not in arms:
            return f"it has a cell of {cell.arm!r}, which is none of its arms"
        if cell.workload not in asked:
            return f"it has a cell of {cell.workload!r}, which is none of its workloads"
        if not all(isfinite(run.tokens_per_second) for run in cell.runs):
            return f"a run of {cell.arm!r} took no time"
        if any(min(run.seconds, run.output_tokens, run.requests) < 0 for run in cell.runs):
            return f"a run of {cell.arm!r} took or answered less than nothing"
    return None if _is_day(report.date[:10]) else f"{report.date!r} is no date"


def _is_day(text: str) -> bool:
    """As evidence has it: a year, a month and a day."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _twice(report: Report) -> str | None:
    """What would be counted double, or compared with one of two."""
    arms = Counter(f"arms called {arm.name!r}" for arm in report.arms)
    cells = Counter(
        f"cells of {cell.arm!r}, {cell.workload} at {cell.load}" for cell in report.cells
    )
    repeated = next((what for what, count in (arms + cells).items() if count > 1), None)
    if repeated:
        return f"it has two {repeated}"
    plain = [arm.name for arm in report.arms if arm.method == "plain"]
    return f"it has plain decoding twice: {', '.join(plain)}" if len(plain) > 1 else None


def check_writable(path: Path, option: str = "--output") -> None:
    """Before minutes are spent. Raises UsageError."""
    elsewhere = f"{option} FILE, in a folder of yours"
    try:
        real = Path(os.path.realpath(path))
        why = _unwritable(path, real)
    except OSError as error:  # a name that is too long, a folder that is gone or locked
        why = unread(error)
    if why:
        raise UsageError(f"the results cannot be written to {path}: {why}", hint=elsewhere)
    with suppress(OSError):
        if shutil.disk_usage(real.parent).free < ROOM:
            raise UsageError(f"there is no room for {path}", hint=f"{elsewhere} with room for it")


def _unwritable(path: Path, real: Path) -> str | None:
    """Why; what is no file (a device, a pipe) would give way to one."""
    if real.is_symlink():
        return "it is a link that leads nowhere but to itself"
    if not real.parent.is_dir():
        return "there is no such folder"
    if not os.access(real.parent, os.W_OK | os.X_OK):
        return "no file can be made in its folder"
    return "it is no file" if path.exists() and not path.is_file() else None
