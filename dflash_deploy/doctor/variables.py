"""Variables of published commands that do nothing, or harm. Pure but for the environment given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.version import InvalidVersion, Version

from dflash_deploy.doctor.engines import ON_GPUS, Found
from dflash_deploy.doctor.finding import Finding
from dflash_deploy.engine_schema import Engine
from dflash_deploy.launch.endings import NAMES
from dflash_deploy.reach import within
from dflash_deploy.schema import EngineName


def findings(
    environment: Mapping[str, str],
    engines: Mapping[str, Engine],
    installed: Sequence[Found],
) -> Iterator[Finding]:
    """Judged for the releases found, and for the newest of an engine that is not."""
    said = 0
    for name in ON_GPUS:
        engine = engines[name]
        versions = _versions(name, engine, installed)
        for switch in engine.dead_switches:
            if environment.get(switch.name) and any(
                within(switch.versions, version) for version in versions
            ):
                said += 1
                text = f"{switch.name} is set. {NAMES[name]}: {switch.message}"
                yield Finding("variables", "note", text, f"unset {switch.name}")
    if not said:
        yield Finding("variables", "ok", "none set that an engine ignores or trips over")


def _versions(name: EngineName, engine: Engine, installed: Sequence[Found]) -> list[Version]:
    found = []
    for each in installed:
        if each.engine == name and each.version:
            try:
                found.append(Version(each.version))
            except InvalidVersion:
                continue
    return found or [Version(engine.releases[-1].version)]
