"""Which engine runs: the one in `--engine-env`, else one of our own, else the one on PATH."""

from __future__ import annotations

from pathlib import Path

from packaging.version import InvalidVersion, Version

from dflash_deploy.choose import highest_floor, intended_draft
from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted, request_for
from dflash_deploy.engine_schema import Engine
from dflash_deploy.envs import select
from dflash_deploy.envs.places import Environment
from dflash_deploy.errors import EngineError
from dflash_deploy.launch.environments import EngineInstall, find_engine, find_executable
from dflash_deploy.registry import Registry


def engine_for(registry: Registry, wanted: Wanted, env_dir: Path | None) -> EngineInstall:
    """The release asked for, or the newest installed one that the entry can use.

    Raises EngineError if there is none.
    """
    request = request_for(registry, wanted)
    name, engine = request.engine, registry.engines[request.engine]
    if env_dir is not None or engine.install is None:
        found = find_engine(name, engine, env_dir=env_dir)
        return _matching(found, engine, wanted.engine_version)
    installed = select.ready(name)
    if wanted.engine_version:
        own = select.exact(installed, wanted.engine_version)
        return _ours(own) if own else _exact_on_path(registry, wanted)
    entry = registry.find(wanted.model)
    floor = highest_floor(entry, engine, name, intended_draft(entry, request))
    own = select.newest(installed, floor.version if floor else None)
    if own is None and find_executable(engine.executable, env_dir=None) is None:
        # too old for the entry: the plan says what it needs, and why
        own = select.newest(installed, None)
    return _ours(own) if own else find_engine(name, engine)


def _ours(own: Environment) -> EngineInstall:
    _output.note(f"{own.engine} {own.version} of {own.path}")
    return EngineInstall(own.executable, own.version)


def _exact_on_path(registry: Registry, wanted: Wanted) -> EngineInstall:
    name = request_for(registry, wanted).engine
    engine = registry.engines[name]
    if find_executable(engine.executable, env_dir=None) is None:
        raise _missing(engine, str(wanted.engine_version), "and there is none on PATH")
    return _matching(find_engine(name, engine), engine, wanted.engine_version)


def _matching(found: EngineInstall, engine: Engine, version: str | None) -> EngineInstall:
    if version is None or _same(found.version, version):
        return found
    raise _missing(engine, version, f"and {found.executable} is {found.version}")


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _missing(engine: Engine, version: str, instead: str) -> EngineError:
    known = version in {release.version for release in engine.releases}
    asked = version if known else engine.releases[-1].version
    return EngineError(
        f"{engine.distribution} {version} is not installed, {instead}",
        hint=f"dflash engine install {engine.distribution}=={asked}"
        if engine.install
        else "leave --engine-version out: the embedded engine is of this package's own release",
    )
