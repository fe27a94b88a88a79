"""The engines that this user can start: where, which release, and whether it can serve DFlash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from dflash_deploy.doctor.finding import Finding, State, plain
from dflash_deploy.doctor.gather import Answer
from dflash_deploy.engine_schema import Engine
from dflash_deploy.envs.places import Environment, every
from dflash_deploy.errors import EngineError
from dflash_deploy.hardware import Hardware
from dflash_deploy.launch.endings import NAMES
from dflash_deploy.launch.environments import find_engine, find_executable
from dflash_deploy.reach import within
from dflash_deploy.schema import EngineName

ON_GPUS: tuple[EngineName, ...] = ("vllm", "sglang")


class Found(msgspec.Struct, frozen=True):
    """One installation of an engine; without a version it is missing, or broken."""

    engine: EngineName
    executable: str | None
    version: str | None = None
    problem: str | None = None
    remedy: str | None = None


def read(name: EngineName, engine: Engine) -> tuple[Found, ...]:
    """Every installation: what PATH has, then the isolated ones, which `serve` prefers."""
    own = [each for each in every() if each.engine == name]
    places = [None, *(each.path for each in own if each.state == "ready")]
    found = [_look(name, engine, place) for place in places]
    found += [_half(name, each) for each in own if each.state in ("broken", "unfinished")]
    there = {each.executable: each for each in found if each.executable}
    return tuple(there.values()) or (found[0],)


def _half(name: EngineName, left: Environment) -> Found:
    """An isolated environment that is no longer whole, or never was."""
    remedy = f"dflash engine remove {left.engine}=={left.version}"
    problem = f"{NAMES[name]} {left.version} at {left.path} is {left.state}"
    return Found(name, str(left.path), None, problem, remedy)


def _look(name: EngineName, engine: Engine, place: Path | None) -> Found:
    """Where it is, and its release; with no program in `place`, the one on PATH."""
    path = find_executable(engine.executable, env_dir=place) if name in ON_GPUS else None
    try:
        install = find_engine(name, engine, env_dir=place)
    except EngineError as error:
        return Found(name, str(path) if path else None, None, error.message, error.hint)
    return Found(name, str(install.executable), install.version)


def serves(found: Found, engine: Engine, hardware: Hardware | None) -> bool:
    """Whether this installation can serve DFlash here, cards aside."""
    return _judged(found, engine, hardware).state != "problem" and found.version is not None


def findings(
    answers: Mapping[EngineName, Answer[tuple[Found, ...]]],
    engines: Mapping[str, Engine],
    hardware: Hardware | None,
    *,
    cards: bool,
    ready: Sequence[str],
) -> Iterator[Finding]:
    """`ready`: the ways to serve there are; without one for the cards, what is missing blocks.

    One problem is enough: with any of the engines mended, the others are no longer needed.
    """
    needed = not ready if not cards else not _on_cards(ready)
    for name, answer in answers.items():
        if answer.value is None:
            yield Finding("engines", "note", f"{NAMES[name]}: {plain(answer.why)}")
        for found in answer.value or ():
            judged = _judged(found, engines[name], hardware)
            if found.executable is None and name in ON_GPUS and not cards:
                text = f"no {NAMES[name]} here, and no GPU that it could use"
                judged = Finding("engines", "ok", text)
            elif judged.state == "problem" and (not needed or (cards and name not in ON_GPUS)):
                judged = msgspec.structs.replace(judged, state="note")
            needed = needed and judged.state != "problem"
            yield judged


def _on_cards(ready: Sequence[str]) -> bool:
    return any(way != "transformers" for way in ready)


def _judged(found: Found, engine: Engine, hardware: Hardware | None) -> Finding:
    """One installation by itself: what is wrong with it is a problem."""
    name = NAMES[found.engine]
    newest = engine.releases[-1].version
    missing = found.executable is None and found.engine in ON_GPUS
    if missing and (reason := _too_new_for_driver(Version(newest), engine, hardware)):
        text = f"{name} {newest} would be installed, and {reason}"
        return Finding("engines", "problem", text, _driver_for(Version(newest), engine))
    if found.version is None:
        return Finding("engines", "problem", plain(found.problem), found.remedy)
    text = plain(f"{name} {found.version} at {found.executable}")
    state: State = "ok"
    try:
        version = Version(found.version)
    except InvalidVersion:
        return Finding("engines", "note", f"{text}: a release nobody knows", None)
    upgrade = f"dflash engine install {engine.distribution}=={newest}"
    if version < Version(engine.first_release):
        text += f": DFlash came with {engine.first_release}"
        return Finding("engines", "problem", text, upgrade)
    if reason := _too_new_for_driver(version, engine, hardware):
        return Finding("engines", "problem", f"{text}: {reason}", _driver_for(version, engine))
    if Version(version.public) > Version(newest):  # a build of that release is no newer one
        text, state = f"{text}: newer than {newest}, the newest known here", "note"
    return Finding("engines", state, text)


def _driver_for(version: Version, engine: Engine) -> str:
    built = built_for(version, engine)
    needs = engine.install.cuda if engine.install else []
    first = next((need.driver for need in needs if need.cuda == built), None)
    least = f", {first} or later" if first else ""
    return f"install an NVIDIA driver that runs CUDA {built}{least}"


def _too_new_for_driver(version: Version, engine: Engine, hardware: Hardware | None) -> str | None:
    """A driver runs binaries of its own CUDA's major release, and of older ones."""
    built = built_for(version, engine)
    runs = hardware.cuda if hardware else None
    if not built or not runs or runs_cuda(built, runs):
        return None
    return f"it is built for CUDA {built}, and the driver runs {runs}"


def built_for(version: Version, engine: Engine) -> str | None:
    """The CUDA of its binaries: by its own tag, by the registry, else as its wheels on PyPI are."""
    if tag := re.fullmatch(r"cu(\d+)(\d)", version.local or ""):
        return f"{tag[1]}.{tag[2]}"
    known = [release.cuda for release in engine.releases if release.version == version.public]
    needs = engine.install.cuda if engine.install else []
    wheels = (need.cuda for need in needs if within(need.versions, version))
    return next(filter(None, (*known, *wheels)), None)


def runs_cuda(built: str, runs: str) -> bool:
    return int(built.partition(".")[0]) <= int(runs.partition(".")[0])
