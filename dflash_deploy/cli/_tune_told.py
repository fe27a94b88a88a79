"""What a tuning found, in a table and a sentence; and the recipe, written or printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from dflash_deploy.cli import _entry_file, _output
from dflash_deploy.cli._bench_setup import Asked
from dflash_deploy.cli._going_on import to_resume
from dflash_deploy.cli._output import Column
from dflash_deploy.cli._planning import Wanted
from dflash_deploy.cli._tune_race import Race
from dflash_deploy.entry_yaml import as_yaml
from dflash_deploy.errors import DFlashError, RegistryError
from dflash_deploy.measure.bench import Course
from dflash_deploy.measure.gains import in_figures, rate
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.resuming import without
from dflash_deploy.measure.tables import label
from dflash_deploy.measure.tune_cost import Cost
from dflash_deploy.measure.tuned_recipe import alone, figures, overlay, passed_over, what
from dflash_deploy.measure.tuning import Choice, measured_of
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Entry, Registry, user_folder
from dflash_deploy.schema import KvDtype, Model, Recipe
from dflash_deploy.validate import problems


def told(
    registry: Registry, show: bool, asked: Asked, plan: Plan, race: Race, choice: Choice | None
) -> None:
    """The document, or the table, the choice and where its recipe is."""
    entry = registry.find(asked.wanted.model)
    file, model, unwritten = (None, None, None)
    if choice is not None:
        file, model, unwritten = _written(entry, plan, race, choice, asked, show=show)
    _output.note(f"the whole report: {race.path}")  # before anything goes to who may leave
    if asked.json:
        _output.json({
            "model": entry.id, "draft": plan.draft.id, "engine": plan.engine,
            "version": plan.version, "synthetic": race.report.synthetic, "choice": choice,
            "starts": race.starts, "report": str(race.path), "file": file, "entry": model,
        })  # fmt: skip
    else:
        _table(race.report)
        _output.paragraph(sentence(race.report, choice))
        if choice is not None and (passed := passed_over(choice)):
            _output.paragraph(passed)
        if file is None and model is not None:
            _output.text(as_yaml(model).rstrip("\n"))
        elif file is not None:
            _output.text(file)
    if file is not None:
        load = choice.up_to if choice and choice.up_to else plan.concurrency
        _output.note(f"next: {shlex.join(_served(asked.wanted, plan.engine, load))}")
    if unwritten is not None:  # the recipe was told before it
        _output.error(unwritten, as_json=False)
        raise typer.Exit(unwritten.exit_code)


def _served(wanted: Wanted, engine: str, load: int) -> list[str]:
    """What serves as was measured: weights and words of one's own are in no recipe."""
    weights = ("--weights", wanted.weights) if wanted.weights else ()
    code = ("--trust-remote-code",) if wanted.trust_remote_code else ()
    where = ("--registry", str(wanted.registry)) if wanted.registry else ()
    own = without(wanted.engine_args, "--load-format")  # it serves real weights
    return ["dflash", "serve", wanted.model, "--engine", engine, *weights, *code, *where,
            "--concurrency", str(load), *(("--", *own) if own else ())]  # fmt: skip


def sentence(report: Report, choice: Choice | None) -> str:
    """The choice in words."""
    made_up = "SYNTHETIC, engine cost only: " if report.synthetic else ""
    if choice is None:
        return f"{made_up}leave DFlash off here: no block is faster than plain decoding"
    above = f"; leave DFlash off above {choice.up_to} in flight" if choice.up_to else ""
    return f"{made_up}{what(choice)}: {figures(choice)}{above}"


def told_cost(
    plan: Plan, found: Cost, blocks: Sequence[int], steps: Course, *, schedule: bool, json: bool
) -> None:
    """Nothing is started: how many servers that would be, and about how long."""
    if json:
        _output.json({
            "model": plan.model, "engine": plan.engine, "version": plan.version, "blocks": blocks,
            "loads": steps.loads, "schedule": schedule, "starts": found.starts,
            "starts_at_least": found.fewest, "runs": found.runs, "seconds": found.seconds,
        })  # fmt: skip
        return
    last = ", then their schedule by load" if schedule else ""
    sizes = ", ".join(map(str, blocks))
    low, high = (max(1, round(seconds / 60)) for seconds in found.seconds)
    _output.paragraph(
        f"{plan.model} on {plan.engine} {plan.version}: plain decoding, blocks of {sizes}{last},"
        f" each at {', '.join(map(label, steps.loads))} in flight"
    )
    _output.paragraph(
        f"{_span(found.fewest, found.starts)} start{'s' if found.starts > 1 else ''} of the engine,"
        f" at most {found.runs} runs, about {_span(low, high)} minutes"
    )


def _span(low: int, high: int) -> str:
    return f"{low} to {high}" if low < high else str(high)


def _table(report: Report) -> None:
    """A row a load: plain decoding's speed, and each arm's gain over it."""
    if report.synthetic:
        _output.text("SYNTHETIC: acceptance was made up; speeds are the engine's, not the draft's.")
    arms = [arm for arm in report.arms if arm.method == "dflash" and measured_of(report, arm.name)]
    gained = {arm.name: measured_of(report, arm.name) for arm in arms}
    plain = {arm.name for arm in report.arms if arm.method == "plain"}
    rows = []
    for load in sorted({load for points in gained.values() for load in points}):
        speeds = [found.mean for cell in report.cells if cell.arm in plain
                  and cell.load.concurrency == load and (found := rate(cell))]  # fmt: skip
        gains = [
            f"{points[load].mean:.2f}x" if load in points else "" for points in gained.values()
        ]
        rows.append((str(load), _speeds(speeds), *gains))
    titles = ["SCHEDULE" if arm.schedule else f"BLOCK {arm.block_size}" for arm in arms]
    columns = [Column("LOAD", right=True), Column("PLAIN tok/s", right=True),
               *(Column(title, right=True) for title in titles)]  # fmt: skip
    if rows:
        _output.table(columns, rows)


def _speeds(found: Sequence[float]) -> str:
    """Of several workloads the lowest and the highest."""
    told = [in_figures(speed) for speed in sorted(found)]
    return " to ".join(dict.fromkeys((told[0], told[-1]))) if told else ""


def _written(
    entry: Entry, plan: Plan, race: Race, choice: Choice, asked: Asked, *, show: bool
) -> tuple[str | None, Model, DFlashError | None]:  # fmt: skip
    """The overlay, and its file; None where it is only to be shown, or why it is not there."""
    base = base_recipe(entry, plan)
    dtype: KvDtype = asked.wanted.kv_dtype.value
    try:
        made = overlay(race.report, entry, base, choice, plan.target.name, dtype)
    except DFlashError as error:
        _output.warning(f"no recipe is written: {error.message}")
        return None, alone(race.report, entry, base, choice, dtype), None
    for line in made.notes:
        _output.warning(line)
    if show:
        return None, made.model, None
    file = (asked.wanted.registry or user_folder()) / made.file
    text = as_yaml(made.model, (f"Written by `dflash tune` on {race.report.date[:10]}.",))
    if _entry_file.holds(file, text):
        return str(file), made.model, None
    try:
        _entry_file.write(file, text, asked.wanted.registry,
                          lambda after: _prove(after, entry.id, made.model))  # fmt: skip
    except DFlashError as error:
        return None, made.model, _unwritten(error, race.path)
    return str(file), made.model, None


def _unwritten(error: DFlashError, report: Path) -> DFlashError:
    """Nothing is measured again for a recipe that found no place."""
    return type(error)(
        f"the recipe is not written: {error.message}",
        hint=f"{to_resume(report)} writes it, once it can be",
    )


def base_recipe(entry: Entry, plan: Plan) -> Recipe:
    """The one that the servers ran with."""
    name = next(choice.value for choice in plan.choices if choice.name == "recipe")
    return next(recipe for recipe in entry.model.recipes if recipe.name == name)


def _prove(registry: Registry, target: str, made: Model) -> None:
    entry = registry.find(target)
    for problem in problems([entry], registry.engines):
        raise RegistryError(f"{problem.where}: {problem.message}")
    if made.recipes[0] not in entry.model.recipes:
        raise RegistryError(f"{entry.files[0]} takes the place of {target}, and does not extend it")
    if made.recipes[0] != entry.model.recipes[0]:
        _output.warning(f"your recipe {entry.model.recipes[0].name} stands in front of it")
