"""All areas at once: ask the machine, then judge. What could not be asked is said as that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from dflash_deploy import hardware as cards
from dflash_deploy.doctor import (
    caches,
    command,
    disk,
    docker,
    engines,
    gpu,
    hub,
    limits,
    variables,
)
from dflash_deploy.doctor.engines import Found
from dflash_deploy.doctor.finding import Area, Finding, plain
from dflash_deploy.doctor.gather import Answer, gather
from dflash_deploy.doctor.verdict import Verdict, Way, verdict, ways
from dflash_deploy.hardware import Hardware
from dflash_deploy.hub.endpoint import without_password
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName

T = TypeVar("T")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine answered; `why` in place of a value for what did not answer."""

    hardware: Answer[Hardware]
    engines: dict[EngineName, Answer[tuple[Found, ...]]]
    docker: Answer[docker.Docker]
    hub: Answer[hub.Hub]
    disk: Answer[disk.Disk]
    caches: Answer[tuple[caches.Cache, ...]]
    limits: Answer[limits.Limits]
    command: Answer[command.Command]

    @property
    def installed(self) -> list[Found]:
        return [found for answer in self.engines.values() for found in answer.value or ()]


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    findings: tuple[Finding, ...]
    facts: Facts


def examine(registry: Registry) -> Examination:
    """Ask and judge. Takes as long as the slowest answer, and no longer than the deadline."""
    facts = ask(registry)
    return judge(facts, registry, os.environ)


def ask(registry: Registry) -> Facts:
    names = get_args(EngineName)
    found = gather(
        {name: partial(engines.read, name, registry.engines[name]) for name in names}
        | {
            "hardware": partial(cards.probe, registry.gpus),
            "docker": docker.read,
            "hub": hub.read,
            "disk": disk.read,
            "caches": partial(caches.read, os.environ, Path.home()),
            "limits": limits.read,
            "command": command.read,
        }
    )
    by_engine = {name: found.pop(name) for name in names}
    return Facts(engines=by_engine, **found)


def judge(facts: Facts, registry: Registry, environment: Mapping[str, str]) -> Examination:
    """The page that these facts make. Pure."""
    hardware = facts.hardware.value
    can = ways(hardware, facts.installed, facts.docker.value, registry.engines)
    findings = tuple(_findings(facts, registry, environment, can))
    return Examination(verdict=verdict(findings, can, hardware), findings=findings, facts=facts)


def _findings(
    facts: Facts, registry: Registry, environment: Mapping[str, str], can: tuple[Way, ...]
) -> Iterator[Finding]:
    hardware = facts.hardware.value
    count = len(hardware.cards) if hardware and gpu.usable(hardware) else 0
    yield from _gpu(facts.hardware)
    yield from engines.findings(
        facts.engines, registry.engines, hardware, cards=bool(count), ready=can
    )
    yield from told("docker", facts.docker, partial(docker.findings, cards=bool(count)))
    yield from _hub(facts, environment)
    yield from told("disk", facts.disk, partial(disk.findings, known=disk.pairs(registry.entries)))
    yield from told("caches", facts.caches, caches.findings)
    yield from told("limits", facts.limits, partial(limits.findings, cards=count))
    yield from told("command", facts.command, command.findings)
    yield from variables.findings(environment, registry.engines, facts.installed)


def told(
    area: Area, answer: Answer[T], judged: Callable[[T], Iterator[Finding]]
) -> Iterator[Finding]:
    """What an answer means; what did not answer hides nothing else."""
    if answer.value is None:
        yield Finding(area, "note", plain(f"this could not be looked at: {answer.why}"))
    else:
        yield from judged(answer.value)


def _gpu(answer: Answer[Hardware]) -> Iterator[Finding]:
    if answer.value is not None:
        yield from gpu.findings(answer.value)
    else:
        text = plain(f"the NVIDIA driver does not answer: {answer.why}")
        yield Finding("gpu", "problem", text, "nvidia-smi; dmesg | grep -i nvrm")


def _hub(facts: Facts, environment: Mapping[str, str]) -> Iterator[Finding]:
    """A name server that is silent is a hub that cannot be reached."""
    endpoint = without_password(environment.get("HF_ENDPOINT") or "https://huggingface.co")
    silent = hub.Hub(endpoint, "unreachable", detail=facts.hub.why)
    cached = facts.disk.value.cached if facts.disk.value else 0
    yield from hub.findings(facts.hub.value or silent, cached=cached)
