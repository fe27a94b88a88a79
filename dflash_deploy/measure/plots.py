"""The figures of a report as geometry: where lines, marks and ticks are. Pure; a template draws.

Coordinates are those of an SVG of `WIDTH` by `HEIGHT`, the origin at the top left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log2, log10

import msgspec

from dflash_deploy.measure.gains import by_position, gains, loads, middle, three_digits
from dflash_deploy.measure.record import curve
from dflash_deploy.measure.report import Load, Percentiles, Report, Run
from dflash_deploy.measure.tables import drafting, label, named
from dflash_deploy.schema import Evidence

WIDTH, HEIGHT = 480, 296
LEFT, RIGHT, TOP, BOTTOM = 80, 468, 14, 250
COLOURS = 6
"""Classes that the template knows, an arm's the same in every figure; marks and dashes tell series
apart without them."""
LETTER = 10.5
"""Its width beside an axis at most, on a narrow page."""
IN_FLIGHT, ARRIVING = "requests in flight", "requests a second"
BOTH = "requests in flight, and requests a second (/s)"
Scale = Callable[[float], float]


class Tick(msgspec.Struct, frozen=True):
    at: float
    label: str


class Mark(msgspec.Struct, frozen=True):
    """A point with its bounds; `said` is what a reader hears or sees on it."""

    x: float
    y: float
    low: float
    high: float
    said: str


class Series(msgspec.Struct, frozen=True):
    label: str
    style: int
    marks: tuple[Mark, ...]
    published: bool = False
    joined: bool = True

    @property
    def path(self) -> str:
        """The `d` of the line through the marks."""
        return " L".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)


class Figure(msgspec.Struct, frozen=True):
    title: str
    said: str
    """The whole figure in a sentence, for those who do not see it."""
    x_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    series: tuple[Series, ...]
    level: float | None = None
    """Where a line stands for plain decoding."""


def figures(report: Report, published: Sequence[Evidence]) -> list[Figure]:
    found = [
        *(_speedup(report, workload.name, published) for workload in report.workloads),
        _acceptance(report),
        *(
            _times(report, workload.name, title, of)
            for workload in report.workloads
            for title, of in TIMES
        ),
    ]
    return [figure for figure in found if figure.series]


def _speedup(report: Report, workload: str, published: Sequence[Evidence]) -> Figure:
    """Gains over loads by arm, and the published ones beside them."""
    found = [gain for gain in gains(report) if gain.workload == workload]
    arms = [arm for arm in drafting(report) if any(gain.arm == arm for gain in found)]
    known = [
        each for block in dict.fromkeys(arm.block_size for arm in arms if arm.method == "dflash")
        if (each := curve(report, published, workload, block)) is not None
    ]  # fmt: skip
    at = {str(gain.load): log2(gain.load.concurrency or 1) for gain in found}
    outer = [log2(x) for each in known for x, _ in each.points]
    x = _scale([*at.values(), *outer], LEFT + 12, RIGHT - 12)
    highest = max(
        [gain.high for gain in found] + [g for each in known for _, g in each.points] + [1]
    )
    y_ticks, y = _upright(highest, "×")  # noqa: RUF001
    own = [
        Series(named(arm), _style(report, arm.block_size, arm.name), tuple(
            Mark(x(at[str(gain.load)]), y(gain.mean), y(gain.low), y(gain.high),
                 f"{named(arm)} at {label(gain.load)}: {gain.mean:.2f}×")  # noqa: RUF001
            for gain in found if gain.arm == arm
        ))
        for arm in arms
    ]  # fmt: skip
    theirs = [
        Series(each.label,
               _style(report, each.block), tuple(
            Mark(x(log2(load)), y(gain), y(gain), y(gain), f"{each.label} at {load}: {gain:g}×")  # noqa: RUF001
            for load, gain in each.points
        ), published=True)
        for each in known
    ]  # fmt: skip
    numbers = {gain.load.concurrency or 1 for gain in found}
    numbers |= {load for each in known for load, _ in each.points}
    ticks = [Tick(x(log2(number)), str(number)) for number in sorted(numbers)]
    return Figure(
        f"Speedup: {workload}",
        "Speedup over plain decoding by requests in flight; the numbers are in the table below.",
        IN_FLIGHT, _apart(ticks), y_ticks,
        (*own, *theirs) if own else (), y(1),
    )  # fmt: skip


def _acceptance(report: Report) -> Figure:
    shares = {
        arm.name: by_position(cell for cell in report.cells if cell.arm == arm.name)
        for arm in drafting(report)
    }
    places = max((len(found) for found in shares.values()), default=0)
    x = _scale([1, max(places, 2)], LEFT + 12, RIGHT - 12)
    y = _scale([0, 1], BOTTOM, TOP)
    series = [
        Series(named(arm), _style(report, arm.block_size, arm.name), tuple(
            Mark(x(place), y(share), y(share), y(share), f"{arm.name}, place {place}: {share:.0%}")
            for place, share in enumerate(shares[arm.name], 1)
        ))
        for arm in drafting(report) if shares[arm.name]
    ]  # fmt: skip
    return Figure(
        "Acceptance by Position",
        "How often the draft token at each place is accepted; the numbers are in the table below.",
        "draft token", _apart(Tick(x(place), str(place)) for place in range(1, places + 1)),
        tuple(Tick(y(share / 4), f"{share * 25}%") for share in range(5)), tuple(series),
    )  # fmt: skip


TIMES: tuple[tuple[str, Callable[[Run], Percentiles | None]], ...] = (
    ("Time to First Token", lambda run: run.ttft),
    ("Time per Output Token", lambda run: run.tpot),
    ("End to End", lambda run: run.latency),
)


def _times(
    report: Report, workload: str, title: str, of: Callable[[Run], Percentiles | None]
) -> Figure:
    """From the median to the 99th percentile, the arms side by side at each load."""
    cells = [cell for cell in report.cells if cell.workload == workload]
    stops = [str(load) for load in loads(cells)]
    found = {
        (cell.arm, str(cell.load)): times
        for cell in cells
        if cell.runs and (times := of(middle(cell)))
    }
    highest = max((times.p99 for times in found.values()), default=0.0)
    unit, factor = ("s", 1.0) if highest >= 2 else ("ms", 1000.0)
    y_ticks, y = _upright(highest * factor, f" {unit}")
    step = (RIGHT - LEFT) / max(len(stops), 1)
    apart = step * 0.7 / max(len(report.arms), 1)

    def mark(arm: int, stop: int, times: Percentiles, name: str) -> Mark:
        place = LEFT + step * (stop + 0.5) + apart * (arm - (len(report.arms) - 1) / 2)
        p50, p99 = y(times.p50 * factor), y(times.p99 * factor)
        said = (
            f"{name}: half within {three_digits(times.p50 * factor)} {unit},"
            f" 99% within {three_digits(times.p99 * factor)} {unit}"
        )
        return Mark(place, p50, p50, p99, said)

    series = [
        Series(arm.name, number % COLOURS, tuple(
            mark(number, stop, found[arm.name, at], f"{arm.name}, {at}")
            for stop, at in enumerate(stops) if (arm.name, at) in found
        ), joined=False)
        for number, arm in enumerate(report.arms)
    ]  # fmt: skip
    title_of_loads, named_load = _loads_in_words(report)
    ticks = (
        Tick(LEFT + step * (number + 0.5), named_load(load))
        for number, load in enumerate(loads(cells))
    )
    return Figure(
        f"{title}: {workload}",
        f"{title} by load: the mark is the median, the line goes up to the 99th percentile;"
        " the numbers are in the table below.",
        title_of_loads, _apart(ticks), y_ticks,
        tuple(each for each in series if each.marks),
    )  # fmt: skip


def _loads_in_words(report: Report) -> tuple[str, Callable[[Load], str]]:
    """The title of an axis of loads, and how each is called: with its unit where there are two."""
    arriving = {cell.load.rate is not None for cell in report.cells}
    if arriving == {True}:
        return ARRIVING, lambda load: f"{load.rate:g}"
    if arriving == {False, True}:
        return BOTH, lambda load: f"{load.rate:g}/s" if load.rate else label(load)
    return IN_FLIGHT, label


def _apart(ticks: Iterable[Tick]) -> tuple[Tick, ...]:
    """Without those whose text would run into the one before it; their marks stay."""
    kept: list[Tick] = []
    end = 0.0
    for tick in sorted(ticks, key=lambda tick: tick.at):
        half = LETTER * len(tick.label) / 2
        if tick.at - half > end:
            kept.append(tick)
            end = tick.at + half
    return tuple(kept)


def _style(report: Report, block: int | None, name: str | None = None) -> int:
    """Of that arm, or of the first with that block."""
    numbers = (
        number for number, arm in enumerate(report.arms)
        if arm.name == name or (name is None and arm.block_size == block)
    )  # fmt: skip
    return next(numbers, 0) % COLOURS


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Linear from the smallest value to the largest; one value alone stands in the middle."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        return lambda _: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _upright(highest: float, unit: str) -> tuple[tuple[Tick, ...], Scale]:
    """An axis from zero to a round number above `highest`, with four to seven ticks."""
    step = _round_step((highest or 1.0) / 5)
    count = max(1, ceil((highest or 1.0) / step - 1e-9))
    scale = _scale([0, count * step], BOTTOM, TOP)
    return tuple(Tick(scale(n * step), f"{n * step:g}{unit}") for n in range(count + 1)), scale


def _round_step(wanted: float) -> float:
    """1, 2 or 5 times a power of ten, the next that is not smaller."""
    power: float = 10.0 ** floor(log10(wanted))
    return next((m * power for m in (1, 2, 5) if m * power >= wanted * (1 - 1e-9)), 10 * power)
