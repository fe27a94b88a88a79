"""A choice as a recipe of the user's own, with what was measured beside it. Pure."""

from __future__ import annotations

import re

import msgspec
from packaging.version import InvalidVersion, Version

from dflash_deploy.measure.admissible import OfAMoment
from dflash_deploy.measure.evidence import MadeEvidence, evidence_of
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tuning import Choice
from dflash_deploy.registry import Entry
from dflash_deploy.schedule import in_words
from dflash_deploy.schema import KvDtype, Model, Recipe, When


def overlay(
    report: Report, entry: Entry, base: Recipe, choice: Choice, weights: str | None, dtype: KvDtype
) -> MadeEvidence:
    """The recipe in front of the one it was measured with, and the evidence for it.

    Without evidence where all figures are of a moment: then nothing verifies it. Raises UsageError
    where the report cannot be evidence for another reason: it does not know its card, say.
    """
    made = alone(report, entry, base, choice, dtype)
    owner, _, name = entry.id.partition("/")
    # the newest is read last, and stands in front
    file = f"models/{owner}/{name}-tune-{_stamp(report)}.yaml"
    try:
        found = evidence_of(report, entry, weights)
    except OfAMoment as error:
        why = f"nothing verifies this recipe: {error.message}"
        return MadeEvidence(made, file, (why, *(error.detail or "").splitlines()))
    return MadeEvidence(
        msgspec.structs.replace(made, evidence=found.model.evidence), file, found.notes
    )


def alone(report: Report, entry: Entry, base: Recipe, choice: Choice, dtype: KvDtype) -> Model:
    """The recipe without evidence."""
    return Model(extends=entry.id, recipes=[recipe(report, base, choice, dtype)])


def recipe(report: Report, base: Recipe, choice: Choice, dtype: KvDtype) -> Recipe:
    """All but block and schedule stays as it was measured; for cards like this one."""
    hardware = report.machine.hardware
    memory = int(hardware.memory_gib or 0)
    known = all(card.architecture for card in hardware.cards)
    names = sorted({card.name for card in hardware.cards}) if known else []
    when = When(
        engine=report.engine,
        version=_releases(base.when.version, report.version),
        cards=names or None,
        memory_at_least_gib=memory or None,
        concurrency_at_most=choice.up_to,
        kv_dtype=base.when.kv_dtype if dtype == "auto" else dtype,
        thinking=base.when.thinking,
    )
    return msgspec.structs.replace(
        base, name=f"tuned-{_stamp(report)}", when=when, block_size=choice.block_size,
        schedule=list(choice.schedule), why=_why(report, choice),
        source=f"dflash tune, {report.date[:10]}",
    )  # fmt: skip


def figures(choice: Choice) -> str:
    """`5.0x at 1, 4.1x at 8 in flight`."""
    parts = [f"{point.mean:.2f}x at {load}" for load, point in choice.points]
    return f"{', '.join(parts)} in flight"


def passed_over(choice: Choice) -> str | None:
    """What was faster by its mean, with its figures; None: nothing was."""
    other = choice.instead_of
    if other is None:
        return None
    faster = f"{what(other)} are faster by less than the spread ({figures(other)})"
    return f"{faster}: the entry's own stay"


def what(choice: Choice) -> str:
    if choice.schedule:
        return f"draft tokens by requests in a step: {in_words(choice.schedule)}"
    return f"blocks of {choice.block_size}"


def _why(report: Report, choice: Choice) -> str:
    sizes = sorted({arm.block_size for arm in report.ran if arm.block_size}, reverse=True)
    tried = ", ".join(str(size) for size in sizes)
    made_up = "SYNTHETIC, acceptance was made up: " if report.synthetic else ""
    return (
        f"{made_up}of blocks of {tried}, on {hardware_of(report)}, against plain decoding:"
        f" {figures(choice)}{'; ' + passed if (passed := passed_over(choice)) else ''}"
    )


def hardware_of(report: Report) -> str:
    return str(report.machine.hardware) if report.machine.hardware.cards else report.machine.cpu


def _releases(before: str | None, measured: str | None) -> str | None:
    """From the release measured on, within what the recipe was for."""
    upper = [part.strip() for part in (before or "").split(",") if "<" in part or "!" in part]
    try:
        lowest = Version(measured or "").base_version
    except InvalidVersion:
        return before
    return ",".join([f">={lowest}", *upper])


def _stamp(report: Report) -> str:
    return re.sub(r"\D", "", report.date)
