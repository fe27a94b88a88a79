"""A report of an interrupted benchmark, taken up again: whether it may be, and how. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.report import Arm, Machine, Report


def resumed(old: Report, new: Report, path: Path) -> Report:
    """`new` with what `old` has of its cells. Raises UsageError where they are not of one kind."""
    wrong = list(differences(old, new))
    if wrong:
        raise UsageError(
            f"{path} is of another benchmark: {wrong[0]}",
            detail="\n".join(wrong[1:]) or None, hint=_instead(old, new, path),
        )  # fmt: skip
    known = {arm.name: arm for arm in old.arms}
    arms = (*(known.pop(arm.name, arm) for arm in new.arms), *known.values())
    asked = {workload.name for workload in new.workloads}
    before = (workload for workload in old.workloads if workload.name not in asked)
    return msgspec.structs.replace(
        new, date=old.date, arms=arms, workloads=(*new.workloads, *before), cells=old.cells
    )


def _instead(old: Report, new: Report, path: Path) -> str:
    """As it was begun; where the machine or a release is another, with a file of its own."""
    typed, begun = typed_words(new.command), typed_words(old.command)
    elsewhere = old.version != new.version or any(_machines(old.machine, new.machine))
    return anew(typed) if elsewhere or anew(begun) == anew(typed) else going_on(begun, path)


def typed_words(command: str) -> list[str]:
    """As the shell had them; a quotation that does not end was written by hand."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def going_on(command: Sequence[str], path: Path) -> str:
    """The same command, going on with what is there; what follows `--` stays last."""
    own, engines = _parted(command)
    own = without(own, "--resume", "--output", "-o")  # which it is written to unasked
    return shlex.join([*own, "--resume", str(path), *engines])


def anew(command: Sequence[str], requests: int | None = None) -> str:
    """The same command with a file of its own; with so many requests a run, where that is said."""
    own, engines = _parted(command)
    own = without(own, "--resume", "--output", "-o")
    if requests is not None:
        own = [*without(own, "--num-prompts", "--max-samples"), "--num-prompts", str(requests)]
    return shlex.join([*own, *engines])


def _parted(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Our own words, and what the engine gets."""
    at = command.index("--") if "--" in command else len(command)
    return command[:at], command[at:]


def without(words: Sequence[str], *options: str) -> list[str]:
    """A command's words, these options and their values left out."""
    return [
        word for before, word in pairwise(("", *words))
        if before not in options and word.partition("=")[0] not in options
    ]  # fmt: skip


def differences(old: Report, new: Report) -> Iterator[str]:
    """Why figures of the one cannot stand beside those of the other."""
    for what in ("model", "draft", "engine", "version", "seed", "temperature", "ranks"):
        was, now = getattr(old, what), getattr(new, what)
        if was != now:
            yield f"its {what} is {_told(was)}, not {_told(now)}"
    if old.weights and old.weights != new.weights:
        yield f"its weights are {old.weights}, not {new.weights or 'unknown ones'}"
    yield from _machines(old.machine, new.machine)
    before = {workload.name: workload for workload in old.workloads}
    for workload in new.workloads:
        was = before.get(workload.name)
        if was and was.sha256 != workload.sha256:
            yield f"its prompts of {workload.name} are others"
        elif was and (was.max_tokens, was.thinking) != (workload.max_tokens, workload.thinking):
            yield f"its answers to {workload.name} had another length or thinking mode"
    arms = {arm.name: arm for arm in old.arms}
    for arm in new.arms:
        had = arms.get(arm.name)
        if had and not started_alike(had, arm):
            yield f"its {arm.name} was started otherwise"


def _told(value: object) -> object:
    """Of a server at a URL neither draft nor release may be known."""
    return "an unknown one" if value is None else value


def started_alike(one: Arm, other: Arm) -> bool:
    """Whether figures of the one are the other's too; the port is of no concern to them."""
    return (portless(one.argv), one.synthetic_rates) == (
        portless(other.argv), other.synthetic_rates
    )  # fmt: skip


def portless(argv: Sequence[str]) -> list[str]:
    """The command without the port, wherever it says it."""
    return [word for before, word in pairwise(("", *argv)) if "--port" not in (before, word)]


def same_machine(machine: Machine) -> list[object]:
    """What two machines have alike that are as good as one."""
    cards = [(card.name, round(card.memory_gib)) for card in machine.hardware.cards]
    return [machine.cpu, machine.cores, cards]


def _machines(old: Machine, new: Machine) -> Iterator[str]:
    if same_machine(old) != same_machine(new):
        yield f"it is of another machine ({old.cpu}, {old.cores} cores)"
