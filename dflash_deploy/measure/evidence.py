"""A report as evidence for a registry entry: an overlay that extends it. Pure.

The status of a recipe follows from evidence, so that only what a report proves becomes any: whole
reports, of a server that it knows the card of, with acceptance that was counted. Where acceptance
was made up, the figures are kept as what they are, the engine's cost, and count for no status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import get_args

import msgspec

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.admissible import check, draft_of, measured, unlike_a_release, usable
from dflash_deploy.measure.gains import Gain, acceptance, gains, steady
from dflash_deploy.measure.report import Arm, Cell, Report
from dflash_deploy.measure.verdict import COLLAPSED
from dflash_deploy.registry import Entry
from dflash_deploy.schema import Evidence, Measurement, Model, Outcome, Task, Thinking

TOKENS = "tokens-"
"""How a workload of random token ids begins."""
OWN: Task = "self-written"
"""How the registry calls prompts that are nobody else's."""


class MadeEvidence(msgspec.Struct, frozen=True):
    model: Model
    """The overlay."""
    file: str
    """Below the registry folder; one benchmark is always the same file, before and after it was
    gone on with.
    """
    notes: tuple[str, ...]
    """What was left out, and what is not known from the report."""


def evidence_of(
    report: Report, entry: Entry, weights: str | None = None, kept_in: Path = Path("REPORT")
) -> MadeEvidence:
    """Raises UsageError for a report that proves nothing, RegistryError for another pair's.

    `kept_in`: the file that the report is from.
    """
    arms, cut = measured(report)
    check(report, entry, arms, kept_in)
    card_of(report)  # no more tokens would tell it
    draft, notes = draft_of(report, entry)
    notes += cut
    named, taken = _weights(entry, weights or report.weights)
    cells, left_out = usable(report, arms)
    notes += [*taken, *left_out]
    modes = {workload.name: workload.thinking for workload in report.workloads}
    ordered = sorted(cells, key=lambda cell: modes[cell.workload] or "")
    made = [
        _evidence(report, list(group), draft, named, mode)
        for mode, group in groupby(ordered, key=lambda cell: modes[cell.workload])
    ]
    if report.synthetic:
        notes.append("acceptance was made up: kept as the engine's cost, and no proof of the draft")
    owner, _, name = entry.id.partition("/")
    file = f"models/{owner}/{name}-bench-{_of_a_benchmark(report)[:8]}.yaml"
    return MadeEvidence(Model(extends=entry.id, evidence=made), file, tuple(notes))


def _of_a_benchmark(report: Report) -> str:
    """Of what `--resume` leaves as it was."""
    of = (report.model, report.draft, report.weights, report.engine, report.version, report.date,
          report.seed, report.temperature)  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(of)).hexdigest()


def digest(report: Report) -> str:
    """Of what was measured: `--resume` of a whole one writes its command and machine into it."""
    of = (report.model, report.draft, report.weights, report.engine, report.version, report.date,
          report.seed, report.temperature, report.workloads, report.cells)  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(of, order="deterministic")).hexdigest()


def _weights(entry: Entry, given: str | None) -> tuple[str | None, list[str]]:
    known = [weights.name for weights in entry.target.weights]
    if given is not None and given not in known:
        raise UsageError(f"{entry.id} has no weights `{given}`", hint=f"one of {', '.join(known)}")
    if given is not None or len(known) < 2:
        return given or next(iter(known), None), []
    return known[0], [f"taken for the weights {known[0]}; --weights says which others it was"]


def _evidence(
    report: Report, cells: list[Cell], draft: str, weights: str | None, mode: Thinking | None
) -> Evidence:
    arms = {arm.name: arm for arm in report.arms}
    gained = {(gain.arm.name, gain.workload, str(gain.load)): gain for gain in gains(report)}
    results = [
        _row(arms[cell.arm], cell, gained.get((cell.arm, cell.workload, str(cell.load))))
        for cell in cells
    ]
    build = unlike_a_release(report, [arms[cell.arm] for cell in cells])
    sizes = {row.block_size for row in results}
    return Evidence(
        outcome=_outcome(report, cells),
        engine=report.engine,
        version=report.version,
        build=build,
        draft=draft,
        weights=weights,
        gpu=card_of(report),
        date=report.date[:10],
        block_size=next(iter(sizes)) if len(sizes) == 1 else None,
        thinking=mode,
        temperature=report.temperature,
        results=results,
        how="; ".join(_how(report, cells)),
        source=f"{_measured_by(report)}, report {digest(report)[:12]}",
    )


def _outcome(report: Report, cells: Sequence[Cell]) -> Outcome:
    if report.synthetic:
        return "synthetic"
    length = acceptance(cells)
    return "degraded" if length is not None and length < COLLAPSED else "verified"


def _row(arm: Arm, cell: Cell, gain: Gain | None) -> Measurement:
    """Of requests that arrive, acceptance alone: not the server decides how many are answered.

    So where the repeats swing, which acceptance does not.
    """
    speed = None if cell.load.rate else steady(cell)
    gain = gain if speed and gain and not gain.plain.swings else None
    length = None if arm.synthetic_length else acceptance([cell])
    return Measurement(
        task=_task(cell.workload),
        concurrency=cell.load.concurrency,
        rate=cell.load.rate,
        block_size=None if arm.schedule else arm.block_size,
        schedule=list(arm.schedule),
        acceptance_length=round(length, 2) if length else None,
        speedup=round(gain.mean, 2) if gain else None,
        tokens_per_second=round(speed.mean, 1) if speed else None,
        baseline_tokens_per_second=round(gain.plain.mean, 1) if gain else None,
    )


def _task(workload: str) -> Task:
    if workload.startswith(TOKENS):
        return "random"
    return next((task for task in get_args(Task) if task == workload), OWN)


def card_of(report: Report) -> str:
    """The card, as the registry calls it. Raises UsageError where the report does not say."""
    machine = report.machine
    names = {card.name for card in machine.hardware.cards}
    if len(names) == 1:
        return names.pop()
    if not names and report.engine == "transformers":
        return f"CPU, {machine.cores} cores of {machine.cpu}"
    raise UsageError(
        f"the report does not say which card it was: {', '.join(sorted(names)) or 'none found'}",
        hint="dflash bench with CUDA_VISIBLE_DEVICES set to cards of one kind"
        if names
        else "dflash doctor",
    )


def _measured_by(report: Report) -> str:
    words = report.command.split()
    return f"dflash {next((word for word in words if word in ('bench', 'tune')), 'bench')}"


def _how(report: Report, cells: Sequence[Cell]) -> Iterator[str]:
    machine = report.machine
    driver = f", driver {machine.hardware.driver}" if machine.hardware.driver else ""
    own = machine.versions.get("dflash-deploy", "")
    cards = f"a machine with {machine.hardware}{driver}" if machine.hardware.cards else "a CPU"
    yield f"{_measured_by(report)} {own}".rstrip() + f" on {cards}"
    if not report.complete:
        yield "interrupted before all its arms had run"
    if report.ranks > 1:
        yield f"{report.ranks} processes, each with a server and the requests in flight of its own"
    names = {cell.workload for cell in cells}
    for workload in report.workloads:
        if workload.name in names:
            yield (
                f"{workload.name}: {workload.prompts} prompts ({workload.source}), answers of at"
                f" most {workload.max_tokens} tokens"
            )
    rates = sorted({cell.load.rate for cell in cells if cell.load.rate})
    if rates:
        said = ", ".join(f"{each:g}" for each in rates)
        yield f"acceptance alone where requests arrived by chance, {said} a second"
    fewest, most = (pick(len(cell.runs) for cell in cells) for pick in (min, max))
    # `tune` repeats no block that lost everywhere
    repeats = str(most) if fewest == most else f"{fewest} to {most}"
    spreads = [found.farthest for cell in cells if (found := steady(cell)) and found.repeats > 1]
    if not spreads:
        yield "one run each"
    elif (plain := max(_plain_spreads(report, cells), default=0.0)) > max(spreads):
        yield (
            f"{repeats} repeats, of plain decoding within {plain:.1%} of their mean, with the draft"
            f" within {max(spreads):.1%}"
        )
    else:
        yield f"{repeats} repeats, within {max(spreads):.1%} of their mean"


def _plain_spreads(report: Report, cells: Sequence[Cell]) -> Iterator[float]:
    """Of what the gains of these cells are over."""
    kept = {(cell.arm, cell.workload, str(cell.load)) for cell in cells if steady(cell)}
    for gain in gains(report):
        known = (gain.arm.name, gain.workload, str(gain.load)) in kept and not gain.plain.swings
        if known and gain.plain.repeats > 1:
            yield gain.plain.farthest
