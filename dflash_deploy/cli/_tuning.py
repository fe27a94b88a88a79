"""From the options of `dflash tune` to a recipe: servers in turn, a choice, a file."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
from packaging.version import Version

from dflash_deploy.choose import intended_draft
from dflash_deploy.cli import _entry_file, _output
from dflash_deploy.cli._bench_servers import Field, Started, drafting, to_start
from dflash_deploy.cli._bench_setup import Asked, course, engine_of, heaviest, whole_numbers
from dflash_deploy.cli._benching import begun, check_output, concluded
from dflash_deploy.cli._fitting import check_fits, check_room
from dflash_deploy.cli._going_on import alone, keeping
from dflash_deploy.cli._planning import planned, request_for
from dflash_deploy.cli._tune_race import Race, with_last_arm
from dflash_deploy.cli._tune_told import base_recipe, told, told_cost
from dflash_deploy.errors import DFlashError
from dflash_deploy.measure import results
from dflash_deploy.measure.arms import check_simulation, dflash_arm
from dflash_deploy.measure.bench import Course, check_enough
from dflash_deploy.measure.open_files import make_room
from dflash_deploy.measure.resuming import resumed
from dflash_deploy.measure.team import check_single
from dflash_deploy.measure.tune_cost import cost
from dflash_deploy.measure.tuning import (
    Choice,
    best_block,
    candidates,
    chosen,
    measured,
    measured_of,
    plain_loads,
    settled,
)
from dflash_deploy.plan import Plan
from dflash_deploy.reach import as_release, within
from dflash_deploy.registry import Registry, present
from dflash_deploy.schedule import as_json
from dflash_deploy.schema import Span
from dflash_deploy.situation import flag_for

LAST = "dflash-schedule"
KEY = "--speculative-config.num_speculative_tokens_per_batch_size"


@dataclass(frozen=True)
class Tuning:
    """The options as typed."""

    asked: Asked
    schedule: bool
    dry_run: bool
    show: bool


def tune(wanted: Tuning) -> None:
    check_single("tune")
    registry = _entry_file.below(wanted.asked.wanted.registry)
    blocks = _blocks(registry, wanted.asked)
    asked = replace(_of_what_is_there(wanted.asked), block_sizes=",".join(map(str, blocks)))
    steps = course(registry, asked, engine_of(registry, asked), 0, 1)
    if wanted.dry_run:
        _foretell(registry, wanted, asked, steps, blocks)
        return
    if not wanted.show:
        _entry_file.check_place(wanted.asked.wanted.registry)
    check_simulation(os.environ)
    check_enough(steps)
    make_room(steps.most_open)
    path = asked.output or asked.resume or _default_path(registry.find(asked.wanted.model).name)
    check_output(path, f"--output {shlex.quote(str(path.with_suffix('.json')))}")
    with alone(path, asked.resume):
        _tune(registry, wanted, asked, steps, path)


def _tune(registry: Registry, wanted: Tuning, asked: Asked, steps: Course, path: Path) -> None:
    taken_up = results.read(asked.resume) if asked.resume else None
    found = to_start(registry, asked, steps.loads)
    check_fits(registry, asked, found, steps.tasks)
    report = begun(registry, asked, found, steps)
    if taken_up and asked.resume:
        report = resumed(taken_up, report, asked.resume)
    race = Race(report, steps, path)
    with keeping(lambda: race.runs, path):
        choice = _choice(registry, wanted, asked, found, race)
        race.keep(concluded(race.report, registry))
    told(registry, wanted.show, wanted.asked, _plan(registry, asked, found), race, choice)


def _of_what_is_there(asked: Asked) -> Asked:
    """A folder that is made for the recipe has nothing to say about the servers."""
    folder = asked.wanted.registry
    if folder is None or present(folder):
        return asked
    _output.note(f"{folder} is no registry yet: the recipe is the first in it")
    return replace(asked, wanted=replace(asked.wanted, registry=None))


def _choice(
    registry: Registry, wanted: Tuning, asked: Asked, found: Field, race: Race
) -> Choice | None:
    race.all(found)
    loads, seen = plain_loads(race.report), measured(race.report)
    plan = _plan(registry, asked, found)
    can, rests = follows(registry, plan.engine, plan.version)
    own = _own_block(registry, asked, plan)
    choice = chosen(seen, loads, own, schedules=can and wanted.schedule, rests=rests)
    if choice is None or not choice.schedule:
        return choice
    block = best_block(seen, loads, own)
    try:
        race.one(_scheduled(registry, asked, found, choice, race))
    except DFlashError as error:
        _output.warning(f"no schedule: {error.message}")
        return block
    settled_on = settled(choice, measured_of(race.report, LAST), block)
    if settled_on == block:
        _output.note("the schedule is no faster than one block when it runs: left out")
    return settled_on


def _scheduled(
    registry: Registry, asked: Asked, found: Field, choice: Choice, race: Race
) -> Started:
    """The server that confirms it: the plan of its longest block, told the schedule."""
    like = next(servers for servers in found.servers if isinstance(servers, Started)
                and any(arm.block_size == choice.block_size for arm in servers.arms))  # fmt: skip
    plan = _plan(registry, asked, found, choice.block_size, choice.schedule)
    for line in plan.warnings:
        if line not in _plan(registry, asked, found).warnings:
            _output.warning(line)
    rates = next(arm.synthetic_rates for arm in like.arms if arm.block_size == choice.block_size)
    arm, made = dflash_arm(plan, rates)
    last = msgspec.structs.replace(arm, name=LAST, schedule=choice.schedule)
    race.report = with_last_arm(race.report, last)
    return Started((last,), made, like.executable, like.signs, like.timeout)


def _plan(
    registry: Registry, asked: Asked, found: Field, block: int | None = None,
    schedule: tuple[Span, ...] = (),
) -> Plan:  # fmt: skip
    """As the servers were planned, with another block or a schedule."""
    first = next(servers.plan for servers in found.servers if isinstance(servers, Started))
    path = first.target.path
    words = (KEY, as_json(schedule)) if schedule else ()
    known = replace(
        asked.wanted, engine_version=first.version, block_size=block or first.block_size,
        concurrency=first.concurrency, weights=first.target.name if path else asked.wanted.weights,
        engine_args=(*asked.wanted.engine_args, *words),
    )  # fmt: skip
    return planned(registry, known, target_path=path)


def _own_block(registry: Registry, asked: Asked, plan: Plan) -> int | None:
    """That `dflash serve` would run without a tuning."""
    entry = registry.find(asked.wanted.model)
    recipe = base_recipe(entry, plan)
    return recipe.block_size or entry.draft(recipe.draft).block_size


def follows(registry: Registry, engine: str, version: str) -> tuple[bool, bool]:
    """Whether this release takes a schedule, and whether no draft tokens at all cost nothing."""
    known = registry.engines[engine]
    release = as_release(Version(version))
    dear = [rule.when.version for rule in known.rules if rule.id == "schedule-rests"]
    can = flag_for(known, "schedule", release) is not None
    return can, can and not any(within(versions, release) for versions in dear)


def _blocks(registry: Registry, asked: Asked) -> tuple[int, ...]:
    """The longest first: what loses to a longer one ends the search."""
    said = whole_numbers("--block-sizes", asked.block_sizes)
    if said:
        return tuple(sorted(said, reverse=True))
    entry = registry.find(asked.wanted.model)
    draft = intended_draft(entry, request_for(registry, asked.wanted))
    return candidates(draft.block_size) if draft.block_size else ()


def _foretell(
    registry: Registry, wanted: Tuning, asked: Asked, steps: Course, blocks: tuple[int, ...]
) -> None:
    known = replace(asked.wanted, concurrency=heaviest(steps.loads))
    plans = [planned(registry, replace(known, block_size=block)) for block in blocks]
    check_room(registry, asked, steps.tasks, min(plan.context for plan in plans))
    drafting(registry, asked, plans)  # what no server could be told is refused before an install
    can, rests = follows(registry, plans[0].engine, plans[0].version)
    several = len(steps.loads) > 1 and (len(blocks) > 1 or rests)
    schedule = can and wanted.schedule and several
    told_cost(plans[0], cost(plans[0].engine, blocks, steps, schedule=schedule), blocks,
              steps, schedule=schedule, json=asked.json)  # fmt: skip


def _default_path(name: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path(f"dflash-tune-{name.replace('/', '-')}-{stamp}.json")
