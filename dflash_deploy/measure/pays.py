"""A report in words: where DFlash pays, where it does not, with which block, and what limits it.

Pure. No sentence claims a gain that the cells do not show beyond the spread of their repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile

from dflash_deploy.measure.arriving import on_arrival
from dflash_deploy.measure.far_below import far_below
from dflash_deploy.measure.gains import (
    Gain,
    acceptance,
    alone_to_a_cycle,
    failed_share,
    gains,
    on_one_server,
    plain_that_drafts,
    rate,
    size,
    undrafted,
)
from dflash_deploy.measure.remarks import remarks
from dflash_deploy.measure.report import Cell, Load, Report
from dflash_deploy.measure.tables import inflight
from dflash_deploy.measure.verdict import COLLAPSED
from dflash_deploy.measure.waiting import at_a_time, until_first, waits
from dflash_deploy.schema import Evidence

DEAR = 1.5
"""Plain steps that a cycle may take before its cost is what limits the gain."""
RARELY = 0.5
"""Of the tokens: where more came without a draft, that is what limits the gain."""


def verdict(report: Report, published: Sequence[Evidence] = ()) -> tuple[str, ...]:
    """Sentences, the most important first; `published` is what is on record for the pair."""
    return tuple(
        line
        for part in (
            _made_up(report), _no_plain(report), _unfinished(report), _paying(report),
            _others(report), _limits(report), far_below(report, published), remarks(report),
        )
        for line in part
    )  # fmt: skip


def _made_up(report: Report) -> Iterator[str]:
    arms = report.ran or report.arms
    lengths = sorted({arm.synthetic_length for arm in arms if arm.synthetic_length})
    if lengths:
        said = " and ".join(f"{round(length, 2):g}" for length in lengths)
        yield (
            f"SYNTHETIC: acceptance was made up ({said} tokens a cycle). This is what the engine"
            " costs; what the draft gains is not known from it"
        )


def _no_plain(report: Report) -> Iterator[str]:
    drafting = ", ".join(plain_that_drafts(report))
    if drafting and on_one_server(report):
        yield (
            f"{drafting}: somebody else asked the server meanwhile, for it drafted, so there is no"
            " gain over plain decoding to tell: measure it while nobody asks it"
        )
    elif drafting:
        yield (
            f"{drafting}: this server drafts as well, so there is no gain over plain"
            " decoding to tell"
        )


def _unfinished(report: Report) -> Iterator[str]:
    if not report.complete:
        yield "interrupted: what follows is of the cells that were measured"
    for cell in report.cells:
        failed = sum(run.failed for run in cell.runs)
        if failed:
            why = next((reason for run in cell.runs for reason in run.errors), "no reason given")
            counts = "too many to count its speed" if rate(cell) is None else "its speed counts"
            yield (
                f"{cell.arm}, {cell.workload} at {inflight(cell.load)}: {failed} requests"
                f" failed ({failed_share(cell):.0%}), {counts}: {why}"
            )


def _paying(report: Report) -> Iterator[str]:
    found = [gain for gain in gains(report) if gain.arm.method == "dflash"]
    arriving = tuple(on_arrival(report))
    if not found and not arriving:
        if not plain_that_drafts(report):  # said before
            yield _nothing_to_say(report)
        return
    several = len(report.workloads) > 1
    made_up = "with acceptance made up, " if report.synthetic else ""
    for workload, of_workload in groupby(found, key=lambda gain: gain.workload):
        label = f"{workload}: " if several else ""
        yield from _pays(label + made_up, best_by_load(of_workload), _unreached(report, workload))
    yield from arriving


def _unreached(report: Report, workload: str) -> dict[str, list[str]]:
    """By load, of an interrupted report, the DFlash arms that it was not reached with."""
    if report.complete:
        return {}
    ran = {(cell.arm, str(cell.load)) for cell in report.cells
           if cell.workload == workload and cell.runs}  # fmt: skip
    return {
        load: [arm.name for arm in report.arms
               if arm.method == "dflash" and (arm.name, load) not in ran]
        for _, load in ran
    }  # fmt: skip


def _nothing_to_say(report: Report) -> str:
    if not any(arm.method == "dflash" for arm in report.arms):
        return "DFlash was not measured"
    if not any(arm.method == "plain" for arm in report.arms):
        at_url = any(arm.url for arm in report.arms)
        how = " (--baseline-url takes a server of it)" if at_url else ""
        return f"plain decoding was not measured{how}: there is no gain to tell"
    methods = {arm.name: arm.method for arm in report.arms}
    plain, drafted = (
        {(cell.workload, str(cell.load)) for cell in report.cells
         if cell.runs and methods[cell.arm] == method}
        for method in ("plain", "dflash")
    )  # fmt: skip
    how = "has a speed" if plain & drafted else "was measured"
    return f"no load {how} both plain and with DFlash: there is no gain to tell"


def best_by_load(found: Iterable[Gain]) -> list[list[Gain]]:
    """For each load, lightest first, the fastest arm and those its repeats do not tell from it."""
    ordered = sorted(found, key=lambda gain: size(gain.load))
    tied = []
    for _, group in groupby(ordered, key=lambda gain: str(gain.load)):
        by_speed = sorted(group, key=lambda gain: -gain.rate.mean)
        first = by_speed[0]
        tied.append([gain for gain in by_speed if gain.rate.high >= first.rate.low])
    return tied


def _pays(label: str, best: list[list[Gain]], unreached: dict[str, list[str]]) -> Iterator[str]:
    """Runs of loads alike: DFlash gains, loses, or cannot be told from plain decoding.

    Where another block was still to be measured, one that loses is no reason to leave DFlash off.
    """
    whole = len(best)
    spans = [list(span) for _, span in groupby(best, key=lambda tied: tied[0].state)]
    for number, span in enumerate(spans):
        first, last = span[0][0], span[-1][0]
        missing = dict.fromkeys(
            name for tied in span for name in unreached.get(str(tied[0].load), ())
        )
        are = "was" if len(missing) == 1 else "were"
        but = f"; {', '.join(missing)} {are} not measured there" if missing else ""
        match first.state:
            case "gains":
                where = _span(first.load, last.load, number == 0 and len(span) < whole)
                yield f"{label}DFlash pays {where}: {_figures(span)}{_blocks(span)}"
            case "loses" if missing:
                names = " or ".join(dict.fromkeys(tied[0].arm.name for tied in span))
                where = _off(spans, number)
                yield (
                    f"{label}{names} is slower {where}: {_figures(span)} of plain decoding's"
                    f" speed{but}"
                )
            case "loses":
                where = _off(spans, number)
                yield (
                    f"{label}leave it off {where}: {_figures(span)} of plain decoding's speed at"
                    " best"
                )
            case _:
                where = _span(first.load, last.load, False)
                yield (
                    f"{label}{where} DFlash is no faster than plain decoding beyond the spread of"
                    f" the repeats: {_figures(span)}{but}"
                )


def _off(spans: list[list[list[Gain]]], number: int) -> str:
    """`above N`, where N is the highest load below these that it gained at."""
    span = spans[number]
    if number == len(spans) - 1 and number > 0:
        return f"above {inflight(spans[number - 1][-1][0].load)}"
    return _span(span[0][0].load, span[-1][0].load, False)


def _span(first: Load, last: Load, from_the_lightest: bool) -> str:
    if str(first) == str(last):
        return f"at {inflight(first)}"
    if from_the_lightest:
        return f"up to {inflight(last)}"
    return f"from {_number(first)} to {inflight(last)}"


def _figures(span: list[list[Gain]]) -> str:
    """The gain at each load, with its bounds."""
    return ", ".join(
        f"{tied[0].mean:.2f}x at {_number(tied[0].load)}"
        f" ({tied[0].low:.2f} to {tied[0].high:.2f})"
        for tied in span
    )  # fmt: skip


def _blocks(span: list[list[Gain]]) -> str:
    """Which arm at which load, where more than one was measured."""
    names = [(" or ".join(gain.arm.name for gain in tied), tied[0].load) for tied in span]
    runs = [(name, [load for _, load in run]) for name, run in groupby(names, key=lambda n: n[0])]
    parts = [f"{name} {_span(found[0], found[-1], False)}" for name, found in runs]
    return f"; fastest: {', '.join(parts)}"


def _others(report: Report) -> Iterator[str]:
    """Another method, where it beats every DFlash arm beyond the spread."""
    every = gains(report)
    for gain in every:
        if gain.arm.method == "dflash":
            continue
        rivals = [
            each for each in every
            if each.arm.method == "dflash"
            and (each.workload, str(each.load)) == (gain.workload, str(gain.load))
        ]  # fmt: skip
        best = max(rivals, key=lambda each: each.rate.mean, default=None)
        if best and gain.state == "gains" and gain.rate.low > max(e.rate.high for e in rivals):
            yield (
                f"{gain.arm.name} is faster than DFlash at {inflight(gain.load)} ({gain.workload}):"
                f" {gain.mean:.2f}x against {best.mean:.2f}x"
            )


def _limits(report: Report) -> Iterator[str]:
    """What a cycle brings, and what it costs in steps of plain decoding: the gain is their ratio.

    Of the arm that is fastest under the heaviest load, where the limit is felt.
    """
    found = [gain for gain in gains(report) if gain.arm.method == "dflash"]
    for workload, group in groupby(found, key=lambda gain: gain.workload):
        of_workload = list(group)
        name = best_by_load(of_workload)[-1][0].arm.name
        of_arm = [gain for gain in of_workload if gain.arm.name == name]
        crowded = list(_crowded(report, of_arm))
        known = [
            (gain, length) for gain in of_arm
            if gain not in crowded and (length := acceptance(_cells(report, gain))) is not None
        ]  # fmt: skip
        costs = [(gain.load, _cost_of(report, gain, length), length) for gain, length in known]
        rests = undrafted(_cells(report, known[-1][0])) if known else 0.0
        label = f"{name}, {workload}"
        if crowded:
            yield _no_room(label, crowded[0].load, *_beside_plain(report, crowded[0]))
        if costs and not report.synthetic and max(length for *_, length in costs) < COLLAPSED:
            yield _collapsed(label, costs[0])
        elif costs and rests > RARELY:
            yield _rare(label, rests, costs[-1])
        elif costs:
            yield from _cost(label, costs)


def _cells(report: Report, gain: Gain) -> list[Cell]:
    return [
        cell for cell in report.cells
        if (cell.arm, cell.workload, str(cell.load))
        == (gain.arm.name, gain.workload, str(gain.load))
    ]  # fmt: skip


def _crowded(report: Report, of_arm: Sequence[Gain]) -> Iterator[Gain]:
    """From the heaviest load on down: room that lacks at one lacks at all above it."""
    yield from takewhile(lambda gain: waits(*_beside_plain(report, gain)), reversed(of_arm))


def _beside_plain(report: Report, gain: Gain) -> tuple[Cell, Cell]:
    """The gain's cell, and plain decoding's under the same load."""
    plain = {arm.name for arm in report.arms if arm.method == "plain"}
    (other,) = (
        cell for cell in report.cells
        if cell.arm in plain
        and (cell.workload, str(cell.load)) == (gain.workload, str(gain.load))
    )  # fmt: skip
    return _cells(report, gain)[0], other


def _cost_of(report: Report, gain: Gain, length: float) -> float:
    """Of a cycle, in plain steps; one without a draft costs as much as one of plain decoding."""
    alone = alone_to_a_cycle(_cells(report, gain))
    return (length + alone) / gain.mean - alone


def _no_room(label: str, load: Load, draft: Cell, plain: Cell) -> str:
    late, usual = until_first(draft) or 0.0, until_first(plain) or 0.0
    return (
        f"{label}: what limits it at {inflight(load)} is room: about {at_a_time(draft):.0f} are"
        f" answered at a time, of plain decoding {at_a_time(plain):.0f}, and the others wait"
        f" ({late:.1f} s until the first token against {usual:.1f}); a shorter block or more cards"
        " make room"
    )


def _rare(label: str, rests: float, heaviest: tuple[Load, float, float]) -> str:
    load, cost, length = heaviest
    costs = f" and costs {cost:.1f} plain steps" if cost >= 1 else ""
    return (
        f"{label}: what limits it is how rarely the engine drafts: {rests:.0%} of the tokens came"
        f" without a draft at {inflight(load)}; a cycle brings {length:.1f} tokens{costs}"
    )


def _collapsed(label: str, lightest: tuple[Load, float, float]) -> str:
    load, _, length = lightest
    return (
        f"{label}: almost nothing that it drafts is accepted, {length:.2f} tokens a cycle at"
        f" {inflight(load)}: the draft is another target's, or wired wrongly"
    )


def _cost(label: str, known: list[tuple[Load, float, float]]) -> Iterator[str]:
    """Tokens and steps that stand together are of one load."""
    (lightest, least, few), (heaviest, most, many) = known[0], known[-1]
    if most < DEAR:
        yield (
            f"{label}: what limits it is acceptance: a cycle brings {many:.1f} tokens and costs"
            f" {most:.1f} plain steps, even at {inflight(heaviest)}"
        )
    elif len(known) == 1:  # nobody saw whether the load is to blame
        yield (
            f"{label}: what limits it is the cost of a cycle: it brings {many:.1f} tokens and costs"
            f" {most:.1f} plain steps at {inflight(heaviest)}"
        )
    elif most > DEAR * least:
        yield (
            f"{label}: what limits it is the target's work on the draft tokens: at"
            f" {inflight(heaviest)} a cycle brings {many:.1f} tokens and costs {most:.1f} plain"
            f" steps, at {_number(lightest)} it brings {few:.1f} and costs {least:.1f}"
        )
    else:
        yield (
            f"{label}: what limits it is the cost of drafting at any load: a cycle brings"
            f" {few:.1f} tokens and costs {least:.1f} plain steps at {inflight(lightest)}"
        )


def _number(load: Load) -> str:
    return f"{load.concurrency}" if load.rate is None else f"{load.rate:g}/s"
