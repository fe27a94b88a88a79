"""Which release each command of a text is judged for, where one was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.read import Command
from dflash_deploy.reach import as_release, is_version
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName


@dataclass(frozen=True)
class Versions:
    """A release that was asked for, and the engine that it is one of."""

    asked: str | None = None
    engine: EngineName | None = None
    """None: of whichever engine a command is for."""

    def of(self, command: Command) -> str | None:
        """None: the release of the image, else the newest."""
        return self.asked if self.engine in (None, command.engine) else None

    def why(self, command: Command) -> str:
        """The rest of a title, for a command that the release asked for is not for."""
        if self.asked is None or self.of(command):
            return ""
        return f" ({self.asked} is a release of {self.engine})"


def versions_of(commands: Iterable[Command], registry: Registry, asked: str | None) -> Versions:
    """One release is of one engine: in a text with both, of the one that counts so far.

    DFlash is in vLLM from 0.20.0 on, in SGLang from 0.5.11. Raises UsageError for one before both.
    """
    named = (command.engine for command in commands)
    engines: list[EngineName] = sorted({engine for engine in named if engine})
    if asked is None or len(engines) < 2 or not is_version(asked):
        return Versions(asked)
    first = {engine: Version(registry.engines[engine].first_release) for engine in engines}
    since = [engine for engine in engines if first[engine] <= as_release(Version(asked))]
    if not since:
        engine = registry.engines[engines[-1]]
        raise UsageError(
            f"commands of {' and '.join(engines)}: {asked} is a release with DFlash of neither",
            hint=f"--engine-version {engine.releases[-1].version}, of {engine.distribution}",
        )
    latest: EngineName = max(since, key=first.__getitem__)
    return Versions(asked, latest)
