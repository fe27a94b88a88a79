"""The servers of a tuning, one after another: each block is looked at, and kept or dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.cli._bench_progress import Watched
from dflash_deploy.cli._bench_servers import Field, Servers
from dflash_deploy.errors import DFlashError, LaunchError
from dflash_deploy.launch.endings import in_short
from dflash_deploy.measure import results
from dflash_deploy.measure.bench import Course, Side, measure
from dflash_deploy.measure.report import Arm, Report
from dflash_deploy.measure.resuming import started_alike
from dflash_deploy.measure.tuning import Point, losing, measured, outrun, plain_loads


class Race:
    """Holds the report as it grows, and writes it after every run."""

    def __init__(self, report: Report, planned: Course, path: Path) -> None:
        self.report, self.planned, self.path = report, planned, path
        self.starts = 0
        self.failed: DFlashError | None = None

    @property
    def runs(self) -> int:
        return sum(len(cell.runs) for cell in self.report.cells)

    def keep(self, report: Report) -> None:
        results.save(report, self.path)
        self.report = report

    def all(self, found: Field) -> None:
        """Plain decoding and every block, the longest first, until one is outrun everywhere."""
        for servers in found.servers:
            self.one(servers)
            block = _block(servers)
            if block and outrun(block, self._blocks_from(block)) and servers != found.servers[-1]:
                _output.note(f"blocks of {block} lose at every load: shorter ones are left out")
                break
        if not measured(self.report):
            raise self.failed or _too_little("DFlash", self.report)

    def one(self, servers: Servers) -> None:
        """An arm: one run of each cell, and the repeats if it is still in the race.

        One that fails does not end the others; plain decoding does.
        """
        look = replace(self.planned, repeats=1)
        if not look.turns(servers.arms, self.report) and self._done(servers):
            return
        try:
            self._measured(servers, look)
        except DFlashError as error:
            if _plain(servers):
                raise
            self.failed = error
            names = ", ".join(arm.name for arm in servers.arms)
            _output.warning(f"{names} is left out: {in_short(error)}")
            if error.hint:
                _output.note(f"hint: {error.hint}")

    def _measured(self, servers: Servers, look: Course) -> None:
        self.starts += 1
        turns = self.planned.turns(servers.arms, self.report)
        watched = Watched(turns, self.planned.requests_at)
        with servers.opened() as sides, watched.drawn():
            for side in sides:
                self.report = results.with_arm(self.report, side.arm)
            looked = self._through(look, sides, watched)
            if _plain(servers) and not plain_loads(self.report):
                raise _too_little("plain decoding", self.report)  # before minutes of others
            if self._dropped(servers):
                _output.note(f"blocks of {_block(servers)} lose at every load: no repeats of them")
            else:
                self._through(self.planned, sides, watched, warm=not looked)

    def _through(
        self, course: Course, sides: list[Side], watched: Watched, *, warm: bool = True
    ) -> bool:
        """Whether there was something to measure."""
        if not course.turns([side.arm for side in sides], self.report):
            return False
        measure(self.report, sides, course, keep=self.keep, telling=watched, warm=warm)
        return True

    def _done(self, servers: Servers) -> bool:
        return self._dropped(servers) or not self.planned.turns(servers.arms, self.report)

    def _dropped(self, servers: Servers) -> bool:
        """After its first look: by what came before it, so that a resumed race goes the same way.

        Never plain decoding, which all are compared with.
        """
        block = _block(servers)
        if _plain(servers) or not block:
            return False
        found = self._blocks_from(block)
        return bool(found.get(block)) and losing(block, found)

    def _blocks_from(self, block: int) -> dict[int, dict[int, Point]]:
        return {size: points for size, points in measured(self.report).items() if size >= block}


def with_last_arm(report: Report, arm: Arm) -> Report:
    """The report with one arm more; cells of another setting under its name are no use to it."""
    old = next((each for each in report.arms if each.name == arm.name), None)
    if old is not None and started_alike(old, arm):
        return report
    return msgspec.structs.replace(
        report,
        arms=(*(each for each in report.arms if each.name != arm.name), arm),
        cells=tuple(cell for cell in report.cells if cell.arm != arm.name),
    )


def _too_little(who: str, report: Report) -> LaunchError:
    why = next((said for cell in report.cells for run in cell.runs for said in run.errors), None)
    return LaunchError(
        f"{who} answered too few requests at every load to count its speed",
        hint=f"dflash serve {report.model} --engine {report.engine}",
        detail=why,
    )


def _plain(servers: Servers) -> bool:
    return any(arm.method == "plain" for arm in servers.arms)


def _block(servers: Servers) -> int | None:
    """Of a fixed block; a schedule is measured to the end."""
    return next(
        (arm.block_size for arm in servers.arms if arm.block_size and not arm.schedule), None
    )
