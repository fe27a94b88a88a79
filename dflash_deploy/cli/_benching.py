"""From the options of `dflash bench` to its report: servers in turn, the file after every run."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import typer

from dflash_deploy import hardware
from dflash_deploy.choose import choose_weights
from dflash_deploy.cli import _bench_table, _output
from dflash_deploy.cli._bench_progress import Watched
from dflash_deploy.cli._bench_servers import Field, Servers, Started, there, to_start
from dflash_deploy.cli._bench_setup import Asked, course, engine_of
from dflash_deploy.cli._fitting import check_fits
from dflash_deploy.cli._going_on import alone, keeping
from dflash_deploy.cli._planning import Wanted, request_for
from dflash_deploy.cli.report import PAGES, check_page, show_comparison, write_page
from dflash_deploy.errors import LaunchError, UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.measure import compare as comparing
from dflash_deploy.measure import results
from dflash_deploy.measure.arms import check_simulation
from dflash_deploy.measure.bench import Course, check_enough, measure
from dflash_deploy.measure.connection import base_of, is_local
from dflash_deploy.measure.gains import rate
from dflash_deploy.measure.machine import engine_versions, this_machine
from dflash_deploy.measure.open_files import make_room
from dflash_deploy.measure.pays import verdict
from dflash_deploy.measure.placeless import placeless
from dflash_deploy.measure.record import published_for
from dflash_deploy.measure.report import Report, document
from dflash_deploy.measure.resuming import resumed
from dflash_deploy.measure.team import Team, launched, ranks, team
from dflash_deploy.plan import without_password
from dflash_deploy.registry import Registry, load


def bench(asked: Asked) -> None:
    """Alone, or as one of the processes of a `torchrun`, of which the first one speaks."""
    rank, count = ranks()
    registry = load(asked.wanted.registry)
    if count > 1 and (engine_of(registry, asked) != "transformers" or asked.url):
        raise UsageError(
            "torchrun shares the prompts of the embedded engine alone",
            hint="dflash bench MODEL, without torchrun: the engine uses all cards itself",
        )
    with ExitStack() as stack:
        if rank:
            stack.enter_context(redirect_stdout(None))
            stack.enter_context(redirect_stderr(None))
        asked = _share(asked, rank, count)
        path = asked.output or asked.resume or default_path(registry.find(asked.wanted.model).name)
        _check_names(asked, path)
        if rank == 0:
            stack.enter_context(alone(path, asked.resume))
        _bench(registry, asked, path, stack.enter_context(team()))


def _check_names(asked: Asked, path: Path) -> None:
    """Before an hour of measuring. Raises UsageError."""
    check_output(path, f"--report {shlex.quote(str(path))}")
    check_page(asked.page)


def check_output(path: Path, of_a_page: str) -> None:
    """`of_a_page`: the hint where the name is one of a page. Raises UsageError."""
    if str(path) == "-":
        raise UsageError(
            "--output is a file, written after every run", hint="--json prints the report"
        )
    if path.suffix in PAGES:
        raise UsageError(f"{path}: --output writes JSON", hint=of_a_page)


def _share(asked: Asked, rank: int, count: int) -> Asked:
    """A port and a part of the cores for each process."""
    if count == 1:
        return asked
    threads = str(max(1, len(os.sched_getaffinity(0)) // count))
    wanted = replace(
        asked.wanted, port=(asked.wanted.port or 8000) + rank,
        engine_args=("--threads", threads, *asked.wanted.engine_args),
    )  # fmt: skip
    return replace(asked, wanted=wanted)


def _bench(registry: Registry, asked: Asked, path: Path, members: Team) -> None:
    engine = engine_of(registry, asked)
    check_simulation(os.environ)
    taken_up, earlier = (results.read(file) if file else None
                         for file in (asked.resume, asked.compare))  # fmt: skip
    planned = course(registry, asked, engine, members.rank, members.ranks)
    check_enough(planned)
    make_room(planned.most_open)
    found = takes_part(registry, asked, planned)
    # every process looks at all prompts, since only the first one speaks
    whole = planned if members.ranks == 1 else course(registry, asked, engine, 0, 1)
    check_fits(registry, asked, found, whole.tasks)
    report = begun(registry, asked, found, planned)
    if earlier and asked.compare:
        comparing.check_comparable(earlier, report, asked.compare)
    if taken_up and asked.resume:
        report = resumed(taken_up, report, asked.resume)
    run = Runner(report, found, planned, path if members.rank == 0 else None, members)

    def told_so_far() -> None:
        # with --json the error is the one document
        if not asked.json and run.report.cells != report.cells:
            _told(run.report, registry, asked)

    with keeping(lambda: run.kept, path, told_so_far):
        report = concluded(run.all(), registry)
        run.keep(report)
    # before anything goes to a reader who may leave
    _output.note(f"the whole report: {path}")
    if asked.page and members.rank == 0:
        write_page(
            asked.page, path, report, published_for(registry.find(report.model), report.draft)
        )
    _told(report, registry, asked)
    if earlier and not asked.json and members.rank == 0:
        show_comparison(comparing.compare(earlier, report))
    _check_answered(report, asked)


def _check_answered(report: Report, asked: Asked) -> None:
    """Servers that refuse most of what they are asked are in trouble, whatever else is told."""
    if any(rate(cell) for cell in report.cells):
        return
    why = next((said for cell in report.cells for run in cell.runs for said in run.errors), None)
    started = f"dflash serve {shlex.quote(asked.wanted.model)} --engine {report.engine}"
    error = LaunchError(
        "in no cell were enough requests answered to count its speed",
        hint=f"curl {without_password(base_of(asked.url))}/v1/models" if asked.url else started,
        detail=why,
    )
    _output.error(error, as_json=False)  # the report was told before it
    raise typer.Exit(error.exit_code)


def takes_part(registry: Registry, asked: Asked, planned: Course) -> Field:
    if asked.url is not None:
        if asked.arms or asked.synthetic:
            raise UsageError(
                "a server at --url decodes as it was started: --arm and --synthetic-acceptance"
                " are for those that this command starts",
                hint="leave --url out",
            )
        cards = hardware.probe(registry.gpus) if is_local(asked.url) else Hardware()
        return there(registry, asked, asked.url, cards)
    if asked.baseline_url is not None:
        raise UsageError(
            "--baseline-url needs --url, the server to compare with it",
            hint="--url http://HOST:PORT, where DFlash is on",
        )
    return to_start(registry, asked, planned.loads)


class Runner:
    """Opens servers, measures, and keeps the report as it grows."""

    def __init__(
        self, report: Report, found: Field, planned: Course, path: Path | None, members: Team
    ) -> None:
        self.found, self.planned, self.path, self.members = found, planned, path, members
        self.report = self._kept = report

    @property
    def kept(self) -> int:
        """Runs in the file."""
        return sum(len(cell.runs) for cell in self._kept.cells)

    def keep(self, report: Report) -> None:
        self.report = report
        if self.path:
            results.save(report, self.path)
        self._kept = report

    def all(self) -> Report:
        left = [self.planned.turns(servers.arms, self.report) for servers in self.found.servers]
        every = [turn for turns in left for turn in turns]
        watched = Watched(every, self.planned.requests_at)
        for servers, turns in zip(self.found.servers, left, strict=True):
            if not turns:
                continue
            try:
                self._measured(servers, watched)
            except LaunchError as error:
                if any(arm.method in ("plain", "dflash") for arm in servers.arms):
                    raise
                # what else the target could speculate with is beside the point of all the rest
                names = ", ".join(arm.name for arm in servers.arms)
                _output.warning(f"{names} is left out: {error.message}")
        return self.report

    def _measured(self, servers: Servers, watched: Watched) -> None:
        with servers.opened() as sides, watched.drawn():
            report = self.report
            for side in sides:
                report = results.with_arm(report, side.arm)
            self.report = report
            measure(
                report, sides, self.planned, keep=self.keep, telling=watched, team=self.members
            )  # fmt: skip


def begun(registry: Registry, asked: Asked, found: Field, planned: Course) -> Report:
    """The report before its first run."""
    entry, stated = registry.find(asked.wanted.model), _stated(registry, asked.wanted)
    return Report(
        model=entry.id,
        draft=found.draft,
        weights=next((s.plan.target.name for s in found.servers if isinstance(s, Started)), stated),
        engine=found.engine,
        version=found.version,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=_command(),
        machine=this_machine(_seen(registry, found), engine_versions(found.engine, found.version)),
        seed=asked.seed,
        temperature=asked.temperature,
        workloads=tuple(task.workload for task in planned.tasks),
        arms=tuple(arm for servers in found.servers for arm in servers.arms),
        cells=(),
        ranks=planned.ranks,
        complete=False,
    )


def _stated(registry: Registry, wanted: Wanted) -> str | None:
    """Of a server at a URL: which weights it has, if its user says so. Raises UsageError."""
    if wanted.weights is None:
        return None
    return choose_weights(registry.find(wanted.model), request_for(registry, wanted))[0].name


def _command() -> str:
    words = placeless([*launched(), *sys.argv[1:]], Path.cwd())
    return without_password(shlex.join(words))


def _seen(registry: Registry, found: Field) -> Hardware:
    """A plan knows cards that were named; a report tells of those that are here."""
    return hardware.probe(registry.gpus) if found.hardware.origin == "given" else found.hardware


def default_path(name: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path(f"dflash-bench-{name.replace('/', '-')}-{stamp}.json")


def concluded(report: Report, registry: Registry) -> Report:
    """With nothing left to measure, and what that says in words."""
    complete = msgspec.structs.replace(report, complete=True)
    return msgspec.structs.replace(complete, verdict=_verdict(complete, registry))


def _verdict(report: Report, registry: Registry) -> tuple[str, ...]:
    return verdict(report, published_for(registry.find(report.model), report.draft))


def _told(report: Report, registry: Registry, asked: Asked) -> None:
    if not report.cells:
        return
    if asked.json:
        _output.json(document(report))
        return
    _bench_table.show(report, published_for(registry.find(report.model), report.draft))
    for line in report.verdict or _verdict(report, registry):
        _output.paragraph(line, style="bold" if line.startswith("SYNTHETIC") else "")
