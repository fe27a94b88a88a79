"""What DFlash changes where requests arrive by chance: the time an answer takes. Pure.

Tokens a second say nothing there: a server that keeps up answers what arrives, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_deploy.measure.gains import failed_share, middle, three_digits
from dflash_deploy.measure.report import Arm, Cell, Method, Report


def on_arrival(report: Report) -> Iterator[str]:
    """A sentence for each rate and workload that was measured both plainly and with DFlash."""
    arms = {arm.name: arm for arm in report.arms}
    several = len(report.workloads) > 1
    for workload in report.workloads:
        cells = [cell for cell in report.cells if cell.workload == workload.name and _known(cell)]
        for rate in sorted({cell.load.rate for cell in cells if cell.load.rate}):
            here = [cell for cell in cells if cell.load.rate == rate]
            plain, dflash = _of(here, arms, "plain"), _of(here, arms, "dflash")
            if plain and dflash:
                best = min(dflash, key=_median)
                yield (
                    f"{f'{workload.name}: ' if several else ''}where {rate:g} requests arrive a"
                    f" second, an answer takes {_times(best)} with {best.arm}, and"
                    f" {_times(plain[0])} plainly (medians)"
                )


def _of(cells: Sequence[Cell], arms: dict[str, Arm], method: Method) -> list[Cell]:
    return [cell for cell in cells if arms[cell.arm].method == method]


def _known(cell: Cell) -> bool:
    return bool(cell.runs) and failed_share(cell) == 0 and middle(cell).latency is not None


def _median(cell: Cell) -> float:
    found = middle(cell).latency
    return found.p50 if found else 0.0


def _times(cell: Cell) -> str:
    """The middle repeat's, and how far the others are from it."""
    every = [run.latency.p50 for run in cell.runs if run.latency]
    apart = f" ({three_digits(min(every))} to {three_digits(max(every))})" if len(every) > 1 else ""
    return f"{three_digits(_median(cell))} s{apart}"
