"""What the cells of a report show: rates with their spread, gains over plain decoding. Pure.

A gain is claimed only where the slowest repeat of the one beats the fastest of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from dflash_deploy.measure.report import Arm, Cell, Load, Report, Run, Speculation

MOST_FAILED = 0.01
"""Of the requests: with more, a rate is one of a server in trouble, and no rate at all."""
UNREPEATED = 0.05
"""Taken for the spread on either side of a cell that was run once: repeats differ that much."""
SWINGING = 0.25
"""Of the mean, to either side: repeats that differ by more know no speed."""
WHOLE = 100
"""Tokens a second from which a decimal says nothing."""
FEW = 500
"""Tokens of a cell. Cycles bring one token or a whole block: a hundred of them know their mean to a
few tenths, a dozen do not know it; and a speed over a second or two is that of its moment."""
RESTS = 0.95
"""Of the tokens: where so many came without a draft, what the few cycles accepted is chance. The
embedded engine tries a draft that always loses a little more often than that."""
State = Literal["gains", "loses", "even"]


class Rate(msgspec.Struct, frozen=True):
    """Output tokens a second of one cell, over its repeats."""

    mean: float
    low: float
    high: float
    repeats: int

    @property
    def spread(self) -> float:
        """To either side, as a share of the mean."""
        return (self.high - self.low) / 2 / self.mean

    @property
    def farthest(self) -> float:
        """What one repeat lies off the mean at most; of three and more, it may be over `spread`."""
        return max(self.high - self.mean, self.mean - self.low) / self.mean

    @property
    def swings(self) -> bool:
        return self.spread > SWINGING


class Gain(msgspec.Struct, frozen=True):
    """One arm against plain decoding under the same load; 2.0 is twice as fast."""

    arm: Arm
    load: Load
    workload: str
    rate: Rate
    plain: Rate
    mean: float
    low: float
    high: float

    @property
    def state(self) -> State:
        if self.low > 1:
            return "gains"
        return "loses" if self.high < 1 else "even"


def rate(cell: Cell) -> Rate | None:
    """None: nothing ran, nothing was answered, or too much failed."""
    rates = [run.tokens_per_second for run in cell.runs]
    if not rates or min(rates) <= 0 or failed_share(cell) > MOST_FAILED:
        return None
    mean = fmean(rates)
    margin = UNREPEATED * mean if len(rates) == 1 else 0.0
    return Rate(mean, min(rates) - margin, max(rates) + margin, len(rates))


def steady(cell: Cell) -> Rate | None:
    """None where repeats differ too much, as well."""
    found = rate(cell)
    return None if found is None or found.swings else found


def middle(cell: Cell) -> Run:
    """The repeat whose times stand for the cell; of two the slower."""
    return sorted(cell.runs, key=lambda run: run.tokens_per_second)[(len(cell.runs) - 1) // 2]


def in_figures(speed: float) -> str:
    """Tokens a second as tables show them."""
    return f"{speed:.0f}" if speed >= WHOLE else f"{speed:.1f}"


def three_digits(value: float) -> str:
    """Of a time, as tables show it; never as a power of ten."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def failed_share(cell: Cell) -> float:
    failed = sum(run.failed for run in cell.runs)
    asked = failed + sum(run.requests for run in cell.runs)
    return failed / asked if asked else 0.0


def gains(report: Report) -> list[Gain]:
    """Of every arm but the plain one: by workload and arm in the report's order, then by load.

    Of closed loops alone: where requests arrive, they decide how many tokens come out. Over a
    server that is called plain and drafts there is none.
    """
    arms = {arm.name: arm for arm in report.arms}
    drafting = plain_that_drafts(report)
    plain = {
        (cell.workload, str(cell.load)): found
        for cell in report.cells
        if arms[cell.arm].method == "plain" and cell.arm not in drafting
        and (found := rate(cell)) is not None
    }  # fmt: skip
    every = [
        _gain(arms[cell.arm], cell, own, plain[cell.workload, str(cell.load)])
        for cell in report.cells
        if arms[cell.arm].method != "plain"
        and cell.load.rate is None
        and (own := rate(cell)) is not None
        and (cell.workload, str(cell.load)) in plain
    ]
    order = [arm.name for arm in report.arms]
    asked = [workload.name for workload in report.workloads]

    def place(gain: Gain) -> tuple[int, int, tuple[bool, float]]:
        return asked.index(gain.workload), order.index(gain.arm.name), size(gain.load)

    return sorted(every, key=place)


def _gain(arm: Arm, cell: Cell, own: Rate, plain: Rate) -> Gain:
    return Gain(arm, cell.load, cell.workload, own, plain, *ratio(own, plain))


def ratio(new: Rate, old: Rate) -> tuple[float, float, float]:
    """New over old: mean, lowest, highest."""
    return new.mean / old.mean, new.low / old.high, new.high / old.low


def size(load: Load) -> tuple[bool, float]:
    """Loads in the order of what they ask of a server, closed loops first."""
    return (load.rate is not None, load.rate or float(load.concurrency or 0))


def loads(cells: Iterable[Cell]) -> list[Load]:
    return sorted({str(cell.load): cell.load for cell in cells}.values(), key=size)


def acceptance(cells: Iterable[Cell]) -> float | None:
    """Acceptance length over all repeats of these cells, each draft-verify cycle counting once.

    Of the cells where the draft works: where it rests, a last request alone may have had one.
    """
    works = [cell for cell in cells if undrafted([cell]) < RESTS]
    seen = [run.speculation for cell in works for run in cell.runs if run.speculation]
    cycles = sum(each.drafts for each in seen)
    if cycles > 0:
        return 1 + sum(each.accepted for each in seen) / cycles
    lengths = [each.length for each in seen if each.length is not None]
    return fmean(lengths) if lengths else None


def plain_that_drafts(report: Report) -> list[str]:
    """Arms that are called plain, and whose server drafted while they were measured."""
    plain = {arm.name for arm in report.arms if arm.method == "plain"}
    return sorted({
        cell.arm for cell in report.cells if cell.arm in plain
        and any(run.speculation and run.speculation.drafts > 0 for run in cell.runs)
    })  # fmt: skip


def drafts_beyond(report: Report, arm: Arm) -> float | None:
    """The draft tokens of a cycle, where they are more than the arm's block has: a wrong label."""
    seen = [run.speculation for cell in report.cells if cell.arm == arm.name
            for run in cell.runs if run.speculation and run.speculation.drafts > 0]  # fmt: skip
    if arm.method != "dflash" or arm.block_size is None or not seen:
        return None
    most = max(each.draft_tokens / each.drafts for each in seen)
    return most if most > arm.block_size - 1 else None


def on_one_server(report: Report) -> bool:
    """Plain decoding was asked of the server that drafts: a draft counted there is another's.

    Only the embedded engine decodes plainly on request.
    """
    if report.engine != "transformers":
        return False
    plain = {arm.url for arm in report.arms if arm.method == "plain" and arm.url}
    return bool(plain & {arm.url for arm in report.arms if arm.method != "plain"})


def by_position(cells: Iterable[Cell]) -> tuple[float, ...]:
    """Share of the cycles that accepted the draft token at each place.

    A run whose cycles draft less, as a schedule has them, is silent of the places behind.
    """
    seen = [
        run.speculation for cell in cells for run in cell.runs
        if run.speculation and run.speculation.per_position and run.speculation.drafts > 0
    ]  # fmt: skip
    places = max((len(each.per_position) for each in seen), default=0)
    return tuple(_place(seen, place) for place in range(places))


def _place(seen: Sequence[Speculation], place: int) -> float:
    """Where cycles differ within every run, no mean says how many got there: all count."""
    there = [each for each in seen if each.draft_tokens >= (place + 1) * each.drafts] or seen
    accepted = sum(
        each.per_position[place] * each.drafts for each in there if place < len(each.per_position)
    )
    return accepted / sum(each.drafts for each in there)


def tokens_per_step(cells: Iterable[Cell]) -> float | None:
    """What a step really brought: an answer that ends cuts its last cycle short.

    Tokens above what cycles can have brought are steps of their own, without a draft.
    """
    tokens, cycles, alone = _steps(cells)
    return tokens / (cycles + alone) if cycles > 0 else None


def undrafted(cells: Iterable[Cell]) -> float:
    """Share of the tokens that came without a draft, which a schedule or the engine let rest."""
    tokens, _, alone = _steps(cells)
    return alone / tokens if tokens > 0 else 0.0


def alone_to_a_cycle(cells: Iterable[Cell]) -> float:
    """Steps without a draft, for each with one."""
    _, cycles, alone = _steps(cells)
    return alone / cycles if cycles > 0 else 0.0


def _steps(cells: Iterable[Cell]) -> tuple[float, float, float]:
    """Tokens, cycles and the tokens of no cycle, of the runs whose cycles were counted."""
    runs = [(run, run.speculation) for cell in cells for run in cell.runs
            if run.speculation and run.speculation.gauge is None]  # fmt: skip
    # the first token of an answer is the prompt's
    tokens = sum(run.output_tokens - run.requests for run, _ in runs)
    cycles = sum(counted.drafts for _, counted in runs)
    brought = cycles + sum(counted.accepted for _, counted in runs)
    return tokens, cycles, max(0.0, tokens - brought)
