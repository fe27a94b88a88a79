"""Two reports side by side: what got slower beyond the spread of the repeats. Pure.

A figure is compared only with one of the same machine, prompts and sampling. What differs and may
be the very reason to compare (a release, a command line) is said, and compared nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dflash_deploy.errors import GateFailed, UsageError
from dflash_deploy.measure.gains import Rate, acceptance, in_figures, rate, ratio
from dflash_deploy.measure.report import Arm, Cell, Load, Machine, Report, Workload
from dflash_deploy.measure.resuming import started_alike
from dflash_deploy.measure.tables import NONE, Table, label

State = Literal["slower", "faster", "same"]


class Change(msgspec.Struct, frozen=True):
    """One cell, before and after; `mean` 0.9 is a tenth slower."""

    workload: str
    load: Load
    arm: str
    before: Rate
    after: Rate
    mean: float
    low: float
    high: float
    lengths: tuple[float | None, float | None]
    """Acceptance, before and after."""

    @property
    def state(self) -> State:
        if self.high < 1:
            return "slower"
        return "faster" if self.low > 1 else "same"


class Comparison(msgspec.Struct, frozen=True):
    changes: tuple[Change, ...]
    left_out: tuple[str, ...]
    """What was not compared, and why."""
    notes: tuple[str, ...]
    """What differs and was compared all the same."""

    @property
    def slower(self) -> list[Change]:
        return [change for change in self.changes if change.state == "slower"]


def compare(old: Report, new: Report) -> Comparison:
    """Cells of the same arm, workload and load, where the two reports allow it."""
    apart = tuple(_apart(old, new))
    if apart:
        return Comparison((), apart, ())
    left_out, changes = [*_other_prompts(old, new), *_other_arms(old, new)], []
    barred = {name for name, _ in left_out}
    before = {_key(cell): cell for cell in old.cells}
    for cell in new.cells:
        if barred & {cell.arm, cell.workload}:
            continue
        was = before.pop(_key(cell), None)
        change = _change(was, cell) if was else None
        if change:
            changes.append(change)
        else:
            left_out.append(("", f"{_named(cell)}: {_why(was, cell)}"))
    gone = [cell for cell in before.values() if not barred & {cell.arm, cell.workload}]
    left_out += [("", f"{_named(cell)}: not measured now") for cell in gone]
    return Comparison(tuple(changes), tuple(said for _, said in left_out), tuple(_notes(old, new)))


def check_comparable(old: Report, new: Report, path: Path) -> None:
    """Before anything is measured. Raises UsageError where no figure could be compared."""
    if why := next(_apart(old, new), None):
        raise UsageError(
            f"nothing can be compared with {path}: {why}",
            hint="--compare with a report of this pair, engine and machine; or leave it out",
        )


def gate(comparison: Comparison, old: str) -> None:
    """Raises GateFailed where something is slower, or where there is nothing that could say so."""
    if not comparison.changes:
        why = comparison.left_out[0] if comparison.left_out else "they have no cell in common"
        raise GateFailed(f"nothing can be compared with {old}: {why}", hint=f"dflash report {old}")
    if slower := comparison.slower:
        worst = min(slower, key=lambda change: change.mean)
        raise GateFailed(
            f"{len(slower)} of {len(comparison.changes)} cells are slower than in {old}: at worst"
            f" {worst.mean:.2f}x, {worst.arm}, {worst.workload} at {label(worst.load)}",
            hint=f"dflash report {old}",
        )


def comparison_table(comparison: Comparison) -> Table:
    """One workload alone is its title."""
    several = len({change.workload for change in comparison.changes}) > 1
    rows = tuple(
        (
            *((change.workload,) if several else ()), label(change.load), change.arm,
            in_figures(change.before.mean), in_figures(change.after.mean),
            f"{change.mean:.2f}x", change.state, _lengths(*change.lengths),
        )
        for change in comparison.changes
    )  # fmt: skip
    header = ("LOAD", "ARM", "BEFORE", "NOW", "CHANGE", "", "ACCEPTED")
    title = "Compared" if several else f"Compared: {comparison.changes[0].workload}"
    return Table(
        title, ("WORKLOAD", *header) if several else header, rows,
        "tokens a second; slower and faster: beyond the repeats",
    )  # fmt: skip


def _lengths(before: float | None, after: float | None) -> str:
    if before is None and after is None:
        return ""
    return " > ".join(f"{length:.2f}" if length else NONE for length in (before, after))


def _apart(old: Report, new: Report) -> Iterator[str]:
    """Why no figure of the one says anything of the other."""
    for what in ("model", "draft", "engine", "temperature", "ranks"):
        was, now = getattr(old, what), getattr(new, what)
        if was != now:
            was, now = ("unknown" if value is None else value for value in (was, now))
            yield f"the {what} was {was} and is {now}"
    was, now = _machine(old.machine), _machine(new.machine)
    if was != now:
        yield f"it was another machine: {was}, and is {now}"


def _machine(machine: Machine) -> str:
    """What decides how fast it is. Its free memory and its driver do not."""
    cards = " + ".join(f"{card.name} {card.mig or ''}".strip() for card in machine.hardware.cards)
    return f"{cards or 'no GPU'}, {machine.cpu}, {machine.cores} cores"


def _other_prompts(old: Report, new: Report) -> Iterator[tuple[str, str]]:
    before = {workload.name: workload for workload in old.workloads}
    for workload in new.workloads:
        was = before.get(workload.name)
        if was is not None and (why := _prompts_differ(was, workload)):
            yield workload.name, f"{workload.name}: {why}"


def _prompts_differ(old: Workload, new: Workload) -> str | None:
    if old.sha256 != new.sha256:
        return f"other prompts were sent (sha256 {old.sha256[:12]}, now {new.sha256[:12]})"
    if old.max_tokens != new.max_tokens:
        return f"answers had at most {old.max_tokens} tokens, now {new.max_tokens}"
    if old.thinking != new.thinking:
        return f"thinking was {old.thinking or 'not set'}, now {new.thinking or 'not set'}"
    return None


def _other_arms(old: Report, new: Report) -> Iterator[tuple[str, str]]:
    """Acceptance that was made up otherwise, or once made up and once real."""
    before = {arm.name: arm for arm in old.arms}
    for arm in new.arms:
        was = before.get(arm.name)
        if was is not None and _draft(was) != _draft(arm):
            yield arm.name, f"{arm.name}: it was {_draft(was)}, now {_draft(arm)}"


def _draft(arm: Arm) -> str:
    made_up = f"synthetic at {arm.synthetic_length:g}" if arm.synthetic_length else "real"
    return f"{arm.method}, block {arm.block_size or 'none'}, {made_up}"


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.arm, cell.workload, str(cell.load)


def _named(cell: Cell) -> str:
    return f"{cell.arm}, {cell.workload} at {label(cell.load)}"


def _change(old: Cell, new: Cell) -> Change | None:
    before, after = rate(old), rate(new)
    if before is None or after is None:
        return None
    return Change(
        new.workload, new.load, new.arm, before, after, *ratio(after, before),
        (acceptance([old]), acceptance([new])),
    )  # fmt: skip


def _why(old: Cell | None, new: Cell) -> str:
    if old is None:
        return "not measured then"
    return "too many requests failed " + ("then" if rate(new) else "now")


def _notes(old: Report, new: Report) -> Iterator[str]:
    before, after = old.machine.versions, new.machine.versions
    engine = {new.engine: (old.version, new.version)}
    versions = {name: (before.get(name), after.get(name)) for name in {**before, **after}}
    for name, (was, now) in (versions | engine).items():
        if was != now:
            yield f"{name} was {was or 'absent'}, now {now or 'absent'}"
    known = {arm.name: arm for arm in old.arms}
    for arm in new.arms:
        had = known.get(arm.name)
        if had and not (started_alike(had, arm) and had.env == arm.env):
            yield f"{arm.name} is started with another command"
    if old.seed != new.seed:
        yield f"the seed was {old.seed}, now {new.seed}"
