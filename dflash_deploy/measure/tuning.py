"""Which block at which load, chosen from what a benchmark measured. Pure.

Nothing is chosen that a cell shows slower than plain decoding, beyond the spread of its repeats or
by more than 5% of its mean, and nothing at a load that it was not measured at. What is faster by
less than the spread gives way to the block that the entry has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import isqrt
from statistics import geometric_mean

import msgspec

from dflash_deploy.measure.gains import UNREPEATED, Gain, gains, rate
from dflash_deploy.measure.report import Report
from dflash_deploy.schema import Span

SHORTEST = 4
"""Of the blocks that are tried unasked: three draft tokens."""


class Point(msgspec.Struct, frozen=True):
    """Speed over plain decoding at one load; of several workloads the mean, the worst bounds."""

    mean: float
    low: float
    high: float
    slowest: float
    """By its own repeats alone. Blocks are compared by these: plain decoding's spread is the same
    for all of them."""
    fastest: float

    @property
    def slower(self) -> bool:
        """Than plain decoding, beyond the spread."""
        return self.high < 1

    @property
    def loses(self) -> bool:
        """What no recipe does: slower, or by its mean further than repeats differ elsewhere.

        Repeats that swing prove no loss, and do not make it none.
        """
        return self.slower or self.mean < 1 - UNREPEATED

    def outruns(self, other: Point) -> bool:
        """Another block at this load, beyond the spread of both."""
        return self.slowest > other.fastest


ByLoad = Mapping[int, Point]
Measured = Mapping[int, ByLoad]
"""By block size, then by requests in flight."""


class Choice(msgspec.Struct, frozen=True):
    """What to serve with."""

    block_size: int
    points: tuple[tuple[int, Point], ...]
    """What was measured of it at each load that it is for, the lightest first; with a schedule that
    did not run yet, of the blocks that it is made of."""
    schedule: tuple[Span, ...] = ()
    up_to: int | None = None
    """The heaviest load at which it is not slower; None: it is not at any that was measured."""
    instead_of: Choice | None = None
    """What was faster by its mean, and at no load beyond the spread."""

    @property
    def score(self) -> float:
        return geometric_mean(point.mean for _, point in self.points)

    def outruns(self, other: Choice) -> bool:
        """Another one at any load of both, beyond the spread."""
        there = dict(other.points)
        return any(load in there and point.outruns(there[load]) for load, point in self.points)


def candidates(trained: int) -> tuple[int, ...]:
    """The draft's own block and its halves: few, since each is a start of minutes."""
    sizes = [trained]
    while sizes[-1] // 2 >= SHORTEST:
        sizes.append(sizes[-1] // 2)
    return tuple(sizes)


def plain_loads(report: Report) -> tuple[int, ...]:
    """The loads at which there is something to compare with, the lightest first."""
    plain = {arm.name for arm in report.arms if arm.method == "plain"}
    return tuple(sorted({
        cell.load.concurrency for cell in report.cells
        if cell.arm in plain and cell.load.concurrency and rate(cell) is not None
    }))  # fmt: skip


def measured(report: Report) -> dict[int, dict[int, Point]]:
    """Of every fixed block."""
    found = [g for g in gains(report) if g.arm.method == "dflash" and not g.arm.schedule]
    sizes = sorted({g.arm.block_size for g in found if g.arm.block_size})
    return {size: _by_load(report, [g for g in found if g.arm.block_size == size])
            for size in sizes}  # fmt: skip


def measured_of(report: Report, name: str) -> dict[int, Point]:
    """Of one arm."""
    return _by_load(report, [gain for gain in gains(report) if gain.arm.name == name])


def losing(block: int, found: Measured) -> bool:
    """Whether at every load another block, or plain decoding, is faster beyond the spread.

    So is a block of which nothing was measured.
    """
    return all(
        point.slower or _behind(block, load, found) for load, point in found.get(block, {}).items()
    )


def outrun(block: int, found: Measured) -> bool:
    """Whether at every load another block is faster: then shorter ones need no start."""
    seen = found.get(block, {})
    return bool(seen) and all(_behind(block, load, found) for load in seen)


def _behind(block: int, load: int, found: Measured) -> bool:
    return any(load in points and points[load].outruns(found[block][load])
               for points in found.values())  # fmt: skip


def chosen(
    found: Measured, loads: Sequence[int], own: int | None = None,
    *, schedules: bool = False, rests: bool = False,
) -> Choice | None:  # fmt: skip
    """None: DFlash gains nothing at the lightest loads.

    own: the entry's block, which stays while no other is faster beyond the spread. schedules: the
    engine can change the draft tokens with the load; rests: down to none at all.
    """
    block = best_block(found, loads, own)
    picks = _picks(found, sorted(loads), own, rests) if schedules else []
    if len({tokens for _, tokens, _ in picks}) < 2 or not any(p.low > 1 for _, _, p in picks):
        return block
    return Choice(
        max(tokens for _, tokens, _ in picks) + 1,
        tuple((load, point) for load, _, point in picks),
        spans([(load, tokens) for load, tokens, _ in picks]),
        picks[-1][0] if len(picks) < len(loads) else None,
    )


def best_block(found: Measured, loads: Sequence[int], own: int | None = None) -> Choice | None:
    """The block that is slower nowhere and fastest over all loads; else over as many as it can.

    The entry's own where that one outruns it at no load. Of two alike the shorter, which takes less
    memory.
    """
    ordered = sorted(loads)
    for count in range(len(ordered), 0, -1):
        part = ordered[:count]
        fit = [
            Choice(size, tuple((load, points[load]) for load in part),
                   up_to=part[-1] if count < len(ordered) else None)
            for size, points in found.items()
            if all(load in points and not points[load].loses for load in part)
            and any(points[load].low > 1 for load in part)
        ]  # fmt: skip
        if fit:
            return _rather_own(fit, own)
    return None


def _rather_own(fit: Sequence[Choice], own: int | None) -> Choice:
    best = max(fit, key=lambda choice: (choice.score, -choice.block_size))
    for choice in fit:
        if choice.block_size == own != best.block_size and not best.outruns(choice):
            return msgspec.structs.replace(choice, instead_of=best)
    return best


def settled(tried: Choice, ran: ByLoad, block: Choice | None) -> Choice | None:
    """A schedule with what its own server showed; the block in its place where that is as fast.

    A server that can draft the longest block drafts it at every load, so that a schedule is more
    than its parts: it stands only if it is slower than plain decoding nowhere, and somewhere faster
    than the block beyond the spread.
    """
    loads = [load for load, _ in tried.points]
    if any(load not in ran or ran[load].loses for load in loads):
        return block
    kept = msgspec.structs.replace(tried, points=tuple((load, ran[load]) for load in loads))
    if block is None or len(block.points) < len(loads):
        return kept
    return kept if kept.score > block.score and kept.outruns(block) else block


def spans(picks: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """(load, draft tokens) as ranges of requests in a step.

    Between two loads that want different numbers the geometric mean divides: nothing was measured
    there, and costs grow by ratios.
    """
    runs = [(list(group), tokens) for tokens, group in groupby(picks, key=lambda pick: pick[1])]
    ends = [isqrt(run[-1][0] * after[0][0]) for (run, _), (after, _) in pairwise(runs)]
    ends.append(picks[-1][0])
    starts = [1, *(end + 1 for end in ends)]
    return tuple((first, last, tokens)
                 for first, last, (_, tokens) in zip(starts, ends, runs, strict=False))  # fmt: skip


def _picks(
    found: Measured, loads: Iterable[int], own: int | None, rests: bool
) -> list[tuple[int, int, Point]]:
    """(load, draft tokens, point), up to the load that nothing is good for.

    From one load to the next the block stays while no other is faster beyond the spread; before the
    first load it is the entry's own.
    """
    picks: list[tuple[int, int, Point]] = []
    current = own
    for load in loads:
        here = {size: points[load] for size, points in found.items()
                if load in points and not points[load].loses}  # fmt: skip
        if not here and not (rests and any(load in points for points in found.values())):
            break
        if not here:
            current = own
            picks.append((load, 0, Point(1.0, 1.0, 1.0, 1.0, 1.0)))
            continue
        best = max(here, key=lambda size: (here[size].mean, -size))
        if current not in here or here[best].outruns(here[current]):
            current = best
        picks.append((load, current - 1, here[current]))
    return picks


def _by_load(report: Report, found: Sequence[Gain]) -> dict[int, Point]:
    """At the loads that all workloads were measured at."""
    names = {cell.workload for cell in report.cells}
    ordered = sorted(
        (g for g in found if g.load.concurrency), key=lambda g: g.load.concurrency or 0
    )
    groups = groupby(ordered, key=lambda gain: gain.load.concurrency or 0)
    each = {load: list(group) for load, group in groups}
    return {
        load: Point(geometric_mean(g.mean for g in of), min(g.low for g in of),
                    min(g.high for g in of), *_own_spread(of))
        for load, of in each.items()
        if {gain.workload for gain in of} == names
    }  # fmt: skip


def _own_spread(of: Sequence[Gain]) -> tuple[float, float]:
    """Slowest and fastest, with the mean of plain decoding."""
    return (geometric_mean(gain.mean * gain.rate.low / gain.rate.mean for gain in of),
            geometric_mean(gain.mean * gain.rate.high / gain.rate.mean for gain in of))  # fmt: skip
