"""One report a command: what it is, what is to be said of it, and the right one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dflash_deploy.errors import DFlashError, UsageError
from dflash_deploy.explain.benchmark import bench_engine, bench_line, judge_benchmark
from dflash_deploy.explain.config_file import ConfigFile, named_in, not_here
from dflash_deploy.explain.container import Container
from dflash_deploy.explain.docker_right import docker_run
from dflash_deploy.explain.install import install_line, judge_install
from dflash_deploy.explain.judge import judge
from dflash_deploy.explain.judged import Judged, one_verdict
from dflash_deploy.explain.others import judge_alone, named_model, preferred_engine
from dflash_deploy.explain.read import Command, read
from dflash_deploy.explain.right import cards_part, misfit, plan_for, right_plan
from dflash_deploy.explain.secret import shown
from dflash_deploy.explain.serving import serving
from dflash_deploy.explain.shell import Words
from dflash_deploy.explain.translated import next_step, translated
from dflash_deploy.explain.variables import filled_in
from dflash_deploy.explain.versions import Versions, versions_of
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Registry
from dflash_deploy.render.command import render

MOST_COMMANDS = 200


@dataclass(frozen=True)
class Report:
    title: str
    kind: str
    findings: tuple[Judged, ...]
    engine: str | None = None
    version: str | None = None
    """The release that the command was judged for."""
    target: str | None = None
    right: Plan | DFlashError | None = None
    right_text: str | None = None
    hint: str | None = None
    """What to do where there is no right command."""

    @property
    def refused(self) -> str | None:
        """Why there is no right command."""
        return shown(self.right.message) if isinstance(self.right, DFlashError) else None


def reports(
    commands: list[Words], registry: Registry, version: str | None, hardware: Hardware,
    read_file: Callable[[str], ConfigFile] = not_here,
) -> list[Report]:  # fmt: skip
    """A report for every command that has to do with DFlash, in order.

    Variables exported before a server's command belong to it; `read_file` gets at the files that
    `--config` names.
    Raises UsageError for a release that is none, and for words that are no command.
    """
    understood = filter(None, map(read, filled_in(commands)))
    found = [_with_file(command, read_file) for command in _with_exports(understood)]
    if len(found) > MOST_COMMANDS:
        raise UsageError(
            f"over {MOST_COMMANDS} commands in one text", hint="a part of it, in a file of its own"
        )
    versions = versions_of(found, registry, version)
    made = (_report(command, registry, versions, hardware) for command in found)
    return [report for report in made if report is not None]


def _with_file(command: Command, read_file: Callable[[str], ConfigFile]) -> Command:
    """A path inside a container is none of this machine."""
    path = named_in(command.argv) if command.kind == "serve" else None
    if path is None:
        return command
    return replace(command, config=not_here(path) if command.container else read_file(path))


def _with_exports(commands: Iterator[Command]) -> Iterator[Command]:
    env: dict[str, str] = {}
    optional: dict[str, str] = {}
    for command in commands:
        if command.kind == "variables":
            env |= command.env
            optional |= command.optional_env
        elif command.kind == "serve":
            yield replace(command, env=env | command.env, optional_env=optional)
            env, optional = {}, {}
        else:
            yield command


def _report(
    command: Command, registry: Registry, versions: Versions, hardware: Hardware
) -> Report | None:
    """None for an install line of other packages."""
    if command.kind == "serve":
        return _served(command, registry, versions, hardware)
    if command.kind == "install":
        found = _legible(judge_install(command, registry))
        line = install_line(command, registry)
        return Report("an install line", "install", found, right_text=line) if found else None
    if command.kind == "benchmark":
        return _benchmark(command, registry, hardware)
    model, engine = named_model(command), preferred_engine(command, registry)
    right = plan_for(registry, model, engine, hardware) if model else None
    text = _in_docker(right, registry)[1] if isinstance(right, Plan) else None
    if text is None and isinstance(right, Plan):
        text = render(right)  # the embedded engine is in no image
    return Report("a model run by itself", command.kind, _legible(judge_alone(command, registry)),
                  engine, None, shown(model) or None, right, text,
                  _planned(right, model, engine))  # fmt: skip


def _planned(right: Plan | DFlashError | None, model: str, engine: str) -> str | None:
    """What to do where there is none: an option of ours needs a command in front."""
    hint = right.hint if isinstance(right, DFlashError) else None
    before = f"dflash plan {shlex.quote(shown(model))} --engine {engine} "
    return before + hint if hint and hint.startswith("--") else hint


def _benchmark(command: Command, registry: Registry, hardware: Hardware) -> Report:
    model, engine = named_model(command), bench_engine(command, registry, hardware)
    right = plan_for(registry, model, engine, hardware) if model else None
    line = bench_line(command, registry, hardware) if isinstance(right, Plan) else None
    refused = right if isinstance(right, DFlashError) else None
    return Report("a benchmark", command.kind, _legible(judge_benchmark(command, registry)),
                  engine, None, shown(model) or None, refused, line,
                  _planned(right, model, engine))  # fmt: skip


def _served(command: Command, registry: Registry, versions: Versions, hardware: Hardware) -> Report:
    seen = serving(command, registry, versions.of(command), hardware)
    made = right_plan(seen)
    right = made.plan
    title = f"a server of {seen.name}, judged for {seen.name} {seen.version}"
    if hardware.cards:
        title += f" on {hardware}"
    title += versions.why(command)
    target = shown(seen.target) if seen.target else None
    found = [*judge(seen, right), *(item.legible for item in made.refused)]
    if too_large := misfit(seen):
        part, message = cards_part(seen), too_large.message
        found.append(Judged(part, "wrong", message, "an estimate: docs/memory.md"))
    said = one_verdict(replace(item, message=translated(item.message, seen)) for item in found)
    text: str | None = None
    if isinstance(right, Plan) and command.container is not None:
        right, text = _in_docker(right, registry, command.container)
    elif isinstance(right, Plan):
        text = render(right)
    hint = next_step(right, seen) if isinstance(right, DFlashError) else None
    return Report(title, "serve", tuple(said), seen.name, str(seen.version), target,
                  right, text, hint)  # fmt: skip


def _legible(found: Iterator[Judged]) -> tuple[Judged, ...]:
    return tuple(item.legible for item in found)


def _in_docker(
    plan: Plan, registry: Registry, said: Container | None = None
) -> tuple[Plan | DFlashError, str | None]:
    """The plan as `docker run`, or why no container holds it."""
    try:
        return plan, docker_run(plan, registry.engines[plan.engine], said)
    except DFlashError as error:
        return error, None
