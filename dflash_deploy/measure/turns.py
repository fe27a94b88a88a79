"""In which order a benchmark measures, and when the requests of an open loop are due. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from random import Random

import msgspec

from dflash_deploy.measure.report import Arm, Cell, Load


class Turn(msgspec.Struct, frozen=True):
    """One run to be made."""

    arm: str
    load: Load
    workload: str
    repeat: int
    """From 0."""

    @property
    def label(self) -> str:
        """The same for every arm: prompts are marked by it."""
        return f"{self.workload} {self.load} {self.repeat}"


def turns(
    arms: Sequence[Arm],
    loads: Sequence[Load],
    workloads: Sequence[str],
    repeats: int,
    done: Collection[Cell] = (),
) -> Iterator[Turn]:
    """Every run of servers that run side by side, without those that are `done`.

    A machine drifts: it warms up, a neighbour comes and goes. So the repeats of a cell lie far
    apart, and arms stand next to each other, the first of a pair changing with each repeat.
    """
    have = {(cell.arm, cell.load, cell.workload): len(cell.runs) for cell in done}
    names = [arm.name for arm in arms]
    for repeat in range(repeats):
        for workload in workloads:
            for load in loads:
                for name in names if repeat % 2 == 0 else reversed(names):
                    if repeat >= have.get((name, load, workload), 0):
                        yield Turn(name, load, workload, repeat)


def width(load: Load) -> int:
    """Requests that share the time of one: a run takes about as many rounds as it has of these."""
    return load.concurrency or 1


def arrivals(rate: float, count: int, seed: str) -> list[float]:
    """Seconds from the start at which `count` requests are due: a Poisson process of `rate`."""
    chance = Random(seed)  # noqa: S311 - a load, not a secret
    times, at = [], 0.0
    for _ in range(count):
        times.append(at)
        at += chance.expovariate(rate)
    return times
