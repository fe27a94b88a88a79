"""One report a command: what it is, what is to be said of it, and the right one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dflash_deploy.errors import DFlashError
from dflash_deploy.explain.judge import Judged, judge
from dflash_deploy.explain.others import (
    install_line,
    judge_alone,
    judge_benchmark,
    judge_install,
    named_model,
    preferred_engine,
)
from dflash_deploy.explain.read import Command, read
from dflash_deploy.explain.right import plan_for, right_plan
from dflash_deploy.explain.serving import serving
from dflash_deploy.explain.shell import Words
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Registry
from dflash_deploy.render.command import render


@dataclass(frozen=True)
class Report:
    title: str
    kind: str
    findings: tuple[Judged, ...]
    engine: str | None = None
    version: str | None = None
    target: str | None = None
    right: Plan | DFlashError | None = None
    right_text: str | None = None


def reports(
    commands: list[Words], registry: Registry, version: str | None, hardware: Hardware
) -> list[Report]:
    """A report for every command that has to do with DFlash, in order.

    Variables exported before a server's command belong to it.
    """
    made: list[Report] = []
    env: dict[str, str] = {}
    optional: dict[str, str] = {}
    for words in commands:
        command = read(words)
        if command is None:
            continue
        if command.kind == "variables":
            env |= command.env
            optional |= command.optional_env
            continue
        if command.kind == "serve":
            command = replace(command, env=env | command.env, optional_env=optional)
            env, optional = {}, {}
        made.append(_report(command, registry, version, hardware))
    return made


def _report(
    command: Command, registry: Registry, version: str | None, hardware: Hardware
) -> Report:
    if command.kind == "serve":
        return _served(command, registry, version, hardware)
    if command.kind == "install":
        found = tuple(judge_install(command, registry))
        return Report("an install line", "install", found,
                      right_text=install_line(command, registry))  # fmt: skip
    judged = judge_alone if command.kind == "run-alone" else judge_benchmark
    title = "a model run by itself" if command.kind == "run-alone" else "a benchmark"
    model, engine = named_model(command), preferred_engine(command, registry)
    right = plan_for(registry, model, engine, hardware) if model else None
    return Report(title, command.kind, tuple(judged(command, registry)), engine, None, model,
                  right, _text(right))  # fmt: skip


def _served(
    command: Command, registry: Registry, version: str | None, hardware: Hardware
) -> Report:
    seen = serving(command, registry, version, hardware)
    right = right_plan(seen)
    title = f"a server of {seen.name}, judged for {seen.name} {seen.version}"
    if hardware.cards:
        title += f" on {hardware}"
    return Report(title, "serve", tuple(judge(seen)), seen.name, str(seen.version), seen.target,
                  right, _text(right))  # fmt: skip


def _text(right: Plan | DFlashError | None) -> str | None:
    return render(right) if isinstance(right, Plan) else None
