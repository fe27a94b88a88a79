"""What of a report can be evidence, and in words why the rest cannot. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version

from dflash_deploy.errors import RegistryError, UsageError
from dflash_deploy.measure.connection import LOCAL
from dflash_deploy.measure.gains import (
    FEW,
    RESTS,
    acceptance,
    drafts_beyond,
    on_one_server,
    plain_that_drafts,
    rate,
    undrafted,
)
from dflash_deploy.measure.report import Arm, Cell, Report
from dflash_deploy.measure.resuming import anew, going_on, typed_words
from dflash_deploy.registry import Entry
from dflash_deploy.schema import SYNTHETIC

ELSEWHERE = "a server that ran already, its command unknown"
DUMMY = "dummy weights"


class OfAMoment(UsageError):
    """All that was measured is figures of a moment."""


def check(report: Report, entry: Entry, arms: Sequence[Arm], file: Path) -> None:
    """Raises UsageError for a report that proves nothing, RegistryError for another pair's."""
    if entry.id.lower() != report.model.lower():
        raise RegistryError(
            f"the report is of {report.model}, and that is a name of {entry.id}",
            hint=f"dflash show {entry.name}",
        )
    known = {draft.id for draft in entry.model.drafts}
    if report.draft not in known and not (report.draft is None and arms and _elsewhere(arms)):
        raise RegistryError(
            f"the report is of the draft {report.draft}, which {entry.id} has not",
            hint=f"dflash registry add {report.draft or 'DRAFT'}",
        )
    if not report.complete and not arms:
        raise UsageError(
            "the report is of a benchmark that was interrupted before an arm had run as often as"
            " plain decoding: half of one proves nothing",
            hint=going_on(typed_words(report.command), file),
        )
    if plain_that_drafts(report) and on_one_server(report):
        raise UsageError(
            "its server drafted while it was asked for plain decoding, so that somebody else asked"
            " it meanwhile: no gain in it is one over plain decoding",
            hint=anew(typed_words(report.command)),
        )
    if plain_that_drafts(report):
        raise UsageError(
            "its plain server drafted as well: no gain in it is one over plain decoding",
            hint="--baseline-url with a server that was started without the draft",
        )
    if wrong := next((arm for arm in arms if drafts_beyond(report, arm)), None):
        raise UsageError(
            f"its {wrong.name} drafted {drafts_beyond(report, wrong):g} tokens a cycle: no block of"
            f" {wrong.block_size} does",
            hint="the same benchmark with the --block-sizes that the server has",
        )
    if not arms:
        raise UsageError("the report has no DFlash in it", hint=f"dflash bench {entry.name}")
    if any(not arm.argv and urlsplit(arm.url or "").hostname not in LOCAL for arm in arms):
        raise UsageError(
            "the server was started by somebody else, and not on this machine: the report knows"
            " neither card nor command",
            hint=f"dflash bench {entry.name} starts one",
        )
    if len({arm.synthetic_length is None for arm in arms}) > 1:
        raise UsageError(
            "some of its acceptance was made up and some was real", hint="a benchmark of one kind"
        )


def measured(report: Report) -> tuple[list[Arm], list[str]]:
    """The DFlash arms that were measured to their end, and in words which were not."""
    arms = [arm for arm in report.arms if arm.method == "dflash"]
    if report.complete:
        return arms, []
    whole = [arm for arm in arms if as_often_as_plain(report, arm)]
    cut = ", ".join(arm.name for arm in arms if arm not in whole)
    why = f"left out: {cut}: interrupted before it had run as often as plain decoding"
    return whole, [why] if cut else []


def as_often_as_plain(report: Report, arm: Arm) -> bool:
    """At every load and with every workload, and more than once.

    Repeats go round all loads: what ran twice at one was measured at all of them. An arm that ends
    early could be one that ends well.
    """
    plain = {each.name for each in report.arms if each.method == "plain"}
    wanted = {_where(cell): len(cell.runs) for cell in report.cells if cell.arm in plain}
    ran = {_where(cell): len(cell.runs) for cell in report.cells if cell.arm == arm.name}
    often = min(wanted.values(), default=0) > 1
    return often and all(ran.get(where, 0) >= runs for where, runs in wanted.items())


def _where(cell: Cell) -> tuple[str, str]:
    return cell.workload, str(cell.load)


def draft_of(report: Report, entry: Entry) -> tuple[str, list[str]]:
    """The draft that ran; a server that somebody else started does not say which."""
    if report.draft is not None:
        return report.draft, []
    served = [draft.id for draft in entry.model.drafts if not draft.unservable]
    taken = next(iter(served), entry.model.drafts[0].id)
    return taken, [f"the server did not say which draft it had: taken for {taken}"]


def usable(report: Report, arms: Sequence[Arm]) -> tuple[list[Cell], list[str]]:
    """The cells that are figures, and why others are none."""
    kept: list[Cell] = []
    notes = [*_other_methods(report), *_swinging(report)]
    known = {arm.name: arm for arm in arms}
    for cell in report.cells:
        arm = known.get(cell.arm)
        if arm is None:
            continue
        why = _unusable(arm, cell)
        if why:
            notes.append(f"left out: {cell.arm}, {cell.workload} at {cell.load}: {why}")
        else:
            kept.append(cell)
    if not kept:
        raise _nothing(report, "\n".join(notes) or None)
    return kept, notes


def _nothing(report: Report, detail: str | None) -> UsageError:
    """Where more tokens would help, the hint is the same benchmark with as many."""
    message = "the report has no figure that could be evidence"
    short = [cell for cell in report.cells if 0 < _answered(cell) < FEW]
    if not short:
        again = anew(typed_words(report.command))
        kind = OfAMoment if any(map(_swings, report.cells)) else UsageError
        return kind(message, hint=again, detail=detail)
    least = min(short, key=_answered)
    asked = max(run.requests for run in least.runs)
    more = anew(typed_words(report.command), ceil(asked * FEW / _answered(least)))
    return OfAMoment(message, hint=more, detail=detail)


def _answered(cell: Cell) -> int:
    return sum(run.output_tokens for run in cell.runs)


def _other_methods(report: Report) -> Iterator[str]:
    names = [arm.name for arm in report.arms if arm.method not in ("plain", "dflash")]
    if names:
        yield f"left out: {', '.join(names)}: entries speak of DFlash alone"


def _swinging(report: Report) -> Iterator[str]:
    """Cells of which acceptance alone is left, and plain ones, over which there is no gain."""
    arms = {arm.name: arm for arm in report.arms}
    for cell in report.cells:
        if arms[cell.arm].synthetic_length is None and (why := _swings(cell)):
            lost = "gain over" if arms[cell.arm].method == "plain" else "speed of"
            yield f"left out: the {lost} {cell.arm}, {cell.workload} at {cell.load}: {why}"


def _swings(cell: Cell) -> str | None:
    """Of closed loops: arrivals have no speed anyway."""
    found = rate(cell)
    if found is None or not found.swings or cell.load.rate is not None:
        return None
    return f"its repeats differ by {found.spread:.0%} to either side"


def _unusable(arm: Arm, cell: Cell) -> str | None:
    if rate(cell) is None:
        return "nothing ran, or too many requests failed"
    if (tokens := _answered(cell)) < FEW:
        return f"{tokens} tokens were answered, and a figure of fewer than {FEW} is chance"
    if arm.synthetic_length is not None:
        return _speedless(cell)
    if _dummy(arm):
        return "its weights were dummies: what it accepted means nothing"
    return _unproven(cell)


def _unproven(cell: Cell) -> str | None:
    if (share := undrafted([cell])) >= RESTS:
        return f"its draft rests there: {share:.0%} of the tokens came without one"
    if acceptance([cell]) is None:
        return "the server did not say what it accepted: nothing proves that it drafted"
    return None


def _speedless(cell: Cell) -> str | None:
    """Made-up acceptance leaves nothing to keep but speed."""
    if cell.load.rate is not None:
        return "arrivals bound its speed, and its acceptance was made up: nothing is left to keep"
    why = _swings(cell)
    return why and f"{why}, and its acceptance was made up: nothing is left to keep"


def unlike_a_release(report: Report, arms: Sequence[Arm]) -> str | None:
    """What makes it no proof of this release with this draft; None: it is one."""
    said = "; ".join(_labels(report, arms))
    return said or None


def _labels(report: Report, arms: Sequence[Arm]) -> Iterator[str]:
    if report.synthetic:
        yield f"{SYNTHETIC}: " + ", ".join(dict.fromkeys(_made_up(arm) for arm in arms))
    if any(_dummy(arm) for arm in arms):
        yield DUMMY
    if _elsewhere(arms):
        yield ELSEWHERE
    if not _is_release(report.version):
        yield f"{report.engine} {report.version or 'of unknown version'}"


def _made_up(arm: Arm) -> str:
    """A schedule makes up less than its block's length where it drafts less."""
    most = "up to " if arm.schedule else ""
    block = f" at block {arm.block_size}" if arm.block_size else ""
    return f"{most}{round(arm.synthetic_length or 0, 2):g}{block}"


def _dummy(arm: Arm) -> bool:
    return ("--load-format", "dummy") in pairwise(arm.argv) or "--load-format=dummy" in arm.argv


def _elsewhere(arms: Sequence[Arm]) -> bool:
    return any(not arm.argv for arm in arms)


def _is_release(version: str | None) -> bool:
    try:
        found = Version(version or "")
    except InvalidVersion:
        return False
    return not (found.is_devrelease or found.local)
