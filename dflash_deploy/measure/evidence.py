"""A report as evidence for a registry entry: an overlay that extends it. Pure.

The status of a recipe follows from evidence, so that only what a report proves becomes any: whole
reports, of a server that it knows the card of, with acceptance that was counted. Where acceptance
was made up, the figures are kept as what they are, the engine's cost, and count for no status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import get_args

import msgspec
from packaging.version import InvalidVersion, Version

from dflash_deploy.errors import RegistryError, UsageError
from dflash_deploy.measure.gains import Gain, acceptance, gains, rate
from dflash_deploy.measure.report import Arm, Cell, Report
from dflash_deploy.measure.verdict import COLLAPSED
from dflash_deploy.registry import Entry
from dflash_deploy.schema import SYNTHETIC, Evidence, Measurement, Model, Task, Thinking

OWN: Task = "self-written"
"""How the registry calls prompts that are nobody else's."""


class MadeEvidence(msgspec.Struct, frozen=True):
    model: Model
    """The overlay."""
    file: str
    """Below the registry folder; one report is always the same file."""
    notes: tuple[str, ...]
    """What was left out, and what is not known from the report."""


def evidence_of(report: Report, entry: Entry, weights: str | None = None) -> MadeEvidence:
    """Raises UsageError for a report that proves nothing, RegistryError for another pair's."""
    arms = [arm for arm in report.arms if arm.method == "dflash"]
    _check(report, entry, arms)
    named, notes = _weights(entry, weights)
    cells, left_out = _usable(report, arms)
    notes += left_out
    modes = {workload.name: workload.thinking for workload in report.workloads}
    ordered = sorted(cells, key=lambda cell: modes[cell.workload] or "")
    made = [
        _evidence(report, list(group), named, mode)
        for mode, group in groupby(ordered, key=lambda cell: modes[cell.workload])
    ]
    if report.synthetic:
        notes.append("acceptance was made up: kept as the engine's cost, and no proof of the draft")
    owner, _, name = entry.id.partition("/")
    file = f"models/{owner}/{name}-bench-{digest(report)[:8]}.yaml"
    return MadeEvidence(Model(extends=entry.id, evidence=made), file, tuple(notes))


def digest(report: Report) -> str:
    return hashlib.sha256(msgspec.json.encode(report, order="deterministic")).hexdigest()


def _check(report: Report, entry: Entry, arms: Sequence[Arm]) -> None:
    if entry.id.lower() != report.model.lower():
        raise RegistryError(
            f"the report is of {report.model}, and that is a name of {entry.id}",
            hint=f"dflash show {entry.name}",
        )
    if report.draft not in {draft.id for draft in entry.model.drafts}:
        raise RegistryError(
            f"the report is of the draft {report.draft}, which {entry.id} has not",
            hint=f"dflash registry add {report.draft or 'DRAFT'}",
        )
    if not report.complete:
        raise UsageError(
            "the report is of a benchmark that was interrupted: half of one proves nothing",
            hint="dflash bench ... --resume goes on with it",
        )
    if not arms:
        raise UsageError("the report has no DFlash in it", hint="dflash bench -h")
    if any(not arm.argv for arm in arms):
        raise UsageError(
            "the server was started by somebody else: the report knows neither card nor command",
            hint=f"dflash bench {entry.name} starts one",
        )
    if len({arm.synthetic_length is None for arm in arms}) > 1:
        raise UsageError(
            "some of its acceptance was made up and some was real", hint="a benchmark of one kind"
        )


def _weights(entry: Entry, given: str | None) -> tuple[str | None, list[str]]:
    known = [weights.name for weights in entry.target.weights]
    if given is not None and given not in known:
        raise UsageError(f"{entry.id} has no weights `{given}`", hint=f"one of {', '.join(known)}")
    if given is not None or len(known) < 2:
        return given or next(iter(known), None), []
    return known[0], [f"taken for the weights {known[0]}; --weights says which others it was"]


def _usable(report: Report, arms: Sequence[Arm]) -> tuple[list[Cell], list[str]]:
    """The cells that are figures of one block at a number in flight, and why others are none."""
    kept: list[Cell] = []
    notes: list[str] = []
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
        raise UsageError(
            "the report has no figure that could be evidence",
            hint="dflash bench -h", detail="\n".join(notes) or None,
        )  # fmt: skip
    return kept, notes


def _unusable(arm: Arm, cell: Cell) -> str | None:
    if arm.schedule:
        return "a schedule has no block of its own"
    if cell.load.concurrency is None:
        return "entries speak of requests in flight, not of arrivals"
    if rate(cell) is None:
        return "nothing ran, or too many requests failed"
    if arm.synthetic_length is None and acceptance([cell]) is None:
        return "the server did not say what it accepted: nothing proves that it drafted"
    return None


def _evidence(
    report: Report, cells: list[Cell], weights: str | None, mode: Thinking | None
) -> Evidence:
    arms = {arm.name: arm for arm in report.arms}
    gained = {(gain.arm.name, gain.workload, str(gain.load)): gain for gain in gains(report)}
    results = [
        _row(arms[cell.arm], cell, gained.get((cell.arm, cell.workload, str(cell.load))))
        for cell in cells
    ]
    length = acceptance(cells)
    collapsed = not report.synthetic and length is not None and length < COLLAPSED
    sizes = {row.block_size for row in results}
    return Evidence(
        outcome="degraded" if collapsed else "verified",
        engine=report.engine,
        version=report.version,
        build=_build(report, [arms[cell.arm] for cell in cells]),
        draft=report.draft,
        weights=weights,
        gpu=_gpu(report),
        date=report.date[:10],
        block_size=next(iter(sizes)) if len(sizes) == 1 else None,
        thinking=mode,
        temperature=report.temperature,
        results=results,
        how="; ".join(_how(report, cells)),
        source=f"dflash bench, report {digest(report)[:12]}",
    )


def _row(arm: Arm, cell: Cell, gain: Gain | None) -> Measurement:
    speed = rate(cell)
    length = None if arm.synthetic_length else acceptance([cell])
    return Measurement(
        task=_task(cell.workload),
        concurrency=cell.load.concurrency,
        block_size=arm.block_size,
        acceptance_length=round(length, 2) if length else None,
        speedup=round(gain.mean, 2) if gain else None,
        tokens_per_second=round(speed.mean, 1) if speed else None,
        baseline_tokens_per_second=round(gain.rate.mean / gain.mean, 1) if gain else None,
    )


def _task(workload: str) -> Task:
    return next((task for task in get_args(Task) if task == workload), OWN)


def _build(report: Report, arms: Sequence[Arm]) -> str | None:
    """What makes it no proof of this release with this draft; None: it is one."""
    lengths = dict.fromkeys((arm.synthetic_length, arm.block_size) for arm in arms)
    if report.synthetic:
        said = ", ".join(f"{length:g} at block {block}" for length, block in lengths)
        return f"{SYNTHETIC}: {said}"
    if report.version is None:
        return f"{report.engine} of unknown version"
    try:
        version = Version(report.version)
    except InvalidVersion:
        return f"{report.engine} {report.version}"
    of_its_own = version.is_devrelease or version.local
    return f"{report.engine} {report.version}" if of_its_own else None


def _gpu(report: Report) -> str:
    """The card, as the registry calls it. Raises UsageError where the report does not say."""
    machine = report.machine
    names = {card.name for card in machine.hardware.cards}
    if len(names) == 1:
        return names.pop()
    if not names and report.engine == "transformers":
        return f"CPU, {machine.cores} cores of {machine.cpu}"
    raise UsageError(
        f"the report does not say which card it was: {', '.join(sorted(names)) or 'none found'}",
        hint="dflash bench with CUDA_VISIBLE_DEVICES set to cards of one kind",
    )


def _how(report: Report, cells: Sequence[Cell]) -> Iterator[str]:
    yield f"dflash bench on a machine with {report.machine.hardware}"
    names = {cell.workload for cell in cells}
    for workload in report.workloads:
        if workload.name in names:
            yield (
                f"{workload.name}: {workload.prompts} prompts ({workload.source}), answers of at"
                f" most {workload.max_tokens} tokens"
            )
    repeats = min(len(cell.runs) for cell in cells)
    spreads = [found.spread for cell in cells if (found := rate(cell)) and found.repeats > 1]
    if spreads:
        yield f"{repeats} repeats, within {max(spreads):.1%} of their mean"
    else:
        yield "one run each"
