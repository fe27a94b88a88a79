"""Settings by meaning, and how a release of an engine spells them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import Unsupported
from dflash_deploy.situation import flag_for


@dataclass(frozen=True)
class Setting:
    """One engine setting: its meaning, its words on the command line, and the reason for it.

    No words: a bare switch. Several: a list, as `--served-model-name A B`.
    """

    name: str
    words: tuple[str, ...]
    why: str
    source: str | None = None

    @property
    def value(self) -> str:
        return " ".join(self.words) or "on"


def setting(name: str, value: object, why: str, source: str | None = None) -> Setting:
    return Setting(name, (str(value),), why, source)


def switch(name: str, why: str, source: str | None = None) -> Setting:
    return Setting(name, (), why, source)


@dataclass(frozen=True)
class Command:
    """What an adapter decides: how the engine starts, its settings, and its environment."""

    start: tuple[str, ...]
    """The program and what comes before every flag."""
    settings: tuple[Setting, ...]
    env: dict[str, str]
    secret_env: str | None = None
    """The variable the engine reads its API key from; None: it reads none."""
    further: tuple[str, ...] = ()
    """Flags passed on as they are: the recipe's, then the user's after `--`."""
    env_why: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    node: tuple[Setting, ...] = ()
    """What each of several machines is told, its rank and the first one's address as marks."""
    follower: tuple[Setting, ...] = ()
    """And what all but the first are told beside."""


def argv(engine: Engine, version: Version, command: Command) -> tuple[str, ...]:
    """The command line, made once: every text form of a plan comes from this list."""
    return (*command.start, *spelled(engine, version, command.settings), *command.further)


def spelled(engine: Engine, version: Version, settings: Iterable[Setting]) -> tuple[str, ...]:
    """Flags and their values. Raises Unsupported for what this release cannot be told."""
    words: list[str] = []
    for item in settings:
        flag = flag_for(engine, item.name, version)
        if flag is None:
            raise Unsupported(
                f"{engine.distribution} {version} has no way to set {item.name}",
                hint=f"--engine-version {engine.releases[-1].version}",
            )
        words += [flag, *item.words]
    return tuple(words)


def supported(engine: Engine, version: Version, settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """Leave out what this release cannot be told; only for settings it can do without."""
    return tuple(item for item in settings if flag_for(engine, item.name, version))
